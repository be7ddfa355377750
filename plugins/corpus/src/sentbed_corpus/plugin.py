"""Hooks of sentbed-corpus: the commands `encode` and `mine`."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl


@hookimpl
def commands() -> Mapping[str, str]:
    """Return the commands `encode` and `mine`."""
    return {
        "encode": "sentbed_corpus.encode_command:encode",
        "mine": "sentbed_corpus.mine_command:mine",
    }
