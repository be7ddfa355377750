"""Hooks of sentbed-corpus: the commands `encode` and `mine`."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl
from sentbed.protocols import Lazy


@hookimpl
def commands() -> Mapping[str, Lazy]:
    """Return the commands `encode` and `mine`."""
    return {
        "encode": Lazy(
            "sentbed_corpus.encode_command:encode",
            "Encode texts: row i of the vectors is text i.",
        ),
        "mine": Lazy(
            "sentbed_corpus.mine_command:mine",
            "Find hard negatives for pairs of texts.",
        ),
    }
