"""Hooks of sentbed-corpus: the commands `encode` and `mine`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sentbed import hookimpl
from sentbed.protocols import Lazy

if TYPE_CHECKING:
    from sentbed_common import Finding

sentbed_api = "3.0"


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


@hookimpl
def findings() -> list[Finding]:
    """Return a finding on whether Parquet files can be read and written on this machine."""
    from sentbed_common import packages

    return [
        packages("data", "Parquet shards", "sentbed-corpus", ("pyarrow",), "parquet")
    ]
