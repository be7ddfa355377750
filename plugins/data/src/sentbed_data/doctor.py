"""Checks of the data that this machine can read, for `sentbed doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs
from sentbed.helpers import data_root
from sentbed_common import Finding, packages

from sentbed_data.find_collections import INCOMPLETE, MISSING, collections, inspect_collection

if TYPE_CHECKING:
    from sentbed.tools import Plugins

EXTRAS = {
    "hub": ("hub data sets", "datasets"),
    "parquet": ("Parquet files", "pyarrow"),
    "arrow": ("Arrow files, `stream`", "pyarrow"),
    "sentences": ("sentence splitting", "syntok"),
    "wordnet": ("WordNet files", "nltk"),
}
"""Extra of this distribution -> its purpose, and the package that it installs."""


def libraries() -> Iterator[Finding]:
    """Yield which of the optional libraries are installed."""
    for extra, (what, package) in EXTRAS.items():
        yield packages("data", what, "sentbed-data", (package,), extra)


def collection_findings(plugins: Plugins) -> Iterator[Finding]:
    """Yield which known collections are complete; rows are not counted, which would take long."""
    base, states = data_root(), {}
    for name, data in collections(plugins).items():
        uncounted = attrs.evolve(data, files=tuple(attrs.evolve(file, rows=None) for file in data.files))
        states[name] = inspect_collection(uncounted, base).state
    if not states:
        return
    parts: dict[str, list[str]] = {"complete": [], "incomplete": [], "missing": []}
    for name, state in states.items():
        part = {INCOMPLETE: "incomplete", MISSING: "missing"}.get(state, "complete")
        parts[part].append(name)
    detail = "; ".join(f"{what}: {', '.join(names)}" for what, names in parts.items() if names)
    whole = len(parts["complete"]) == len(states)
    remedy = "" if whole else "`sentbed data get NAME`; `sentbed data where NAME` lists files"
    yield Finding("data", "known data", "yes" if whole else "limited", detail, remedy)
