"""What can be read on this machine, for `sentbed doctor`."""

from __future__ import annotations

from collections.abc import Iterator

from sentbed.helpers import packages
from sentbed.protocols import Finding

EXTRAS = {
    "hub": ("hub data sets", "datasets"),
    "parquet": ("Parquet files", "pyarrow"),
    "arrow": ("Arrow files, `stream`", "pyarrow"),
    "sentences": ("sentence splitting", "syntok"),
    "wordnet": ("WordNet files", "nltk"),
}
"""Extra of this distribution -> what it is for, and the package that it brings."""


def findings() -> Iterator[Finding]:
    """Yield which of the optional libraries are installed."""
    for extra, (what, package) in EXTRAS.items():
        yield packages("data", what, "sentbed-data", (package,), extra)
