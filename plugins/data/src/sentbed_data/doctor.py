"""Checks of the data that this machine can read, for `sentbed doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs
from sentbed.helpers import data_root
from sentbed_common import Finding, packages

from sentbed_data.find_collections import (
    INCOMPLETE,
    MISSING,
    collections,
    inspect_collection,
)

if TYPE_CHECKING:
    from sentbed.tools import Plugins

EXTRAS = {
    "hub": ("hub data sets", "datasets"),
    "parquet": ("Parquet files", "pyarrow"),
    "arrow": ("Arrow files, `stream`", "pyarrow"),
    "sentences": ("sentence splitting", "syntok"),
    "wordnet": ("WordNet files", "nltk"),
}
"""Purpose of each extra of this distribution, and the package that the extra installs."""


def library_findings() -> Iterator[Finding]:
    """Yield which of the optional libraries are installed."""
    for extra, (what, package) in EXTRAS.items():
        yield packages("data", what, "sentbed-data", (package,), extra)


def collection_findings(plugins: Plugins) -> Iterator[Finding]:
    """Yield which collections of data files that `sentbed data get` can fetch are complete.

    Rows are not counted, since that would take too long.
    """
    base = data_root()
    names: dict[str, list[str]] = {"complete": [], "incomplete": [], "missing": []}
    for name, collection in collections(plugins).items():
        uncounted = [attrs.evolve(file, rows=None) for file in collection.files]
        state = inspect_collection(
            attrs.evolve(collection, files=tuple(uncounted)), base
        ).state
        if state == INCOMPLETE:
            names["incomplete"].append(name)
        elif state == MISSING:
            names["missing"].append(name)
        else:
            names["complete"].append(name)

    parts = [
        f"{state}: {', '.join(of_state)}"
        for state, of_state in names.items()
        if of_state
    ]
    if not parts:
        return

    detail = "; ".join(parts)
    if not names["incomplete"] and not names["missing"]:
        yield Finding("data", "known data", "yes", detail)
    else:
        remedy = "`sentbed data get NAME`; `sentbed data where NAME` lists files"
        yield Finding("data", "known data", "limited", detail, remedy)
