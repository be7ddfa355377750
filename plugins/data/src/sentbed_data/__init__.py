"""Data sources for sentbed: pairs, triplets, labels, narrative text, altered sentences, a sample corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentbed import hookimpl
from sentbed.protocols import Finding, KnownData, LazyCommand

if TYPE_CHECKING:
    from sentbed.tools import Plugins


sentbed_api = "2.0"


@hookimpl
def data_sources() -> list[type]:
    """Return the data sources of this distribution."""

    from sentbed_data.crop import Crop
    from sentbed_data.delete import Delete
    from sentbed_data.dropout import Dropout
    from sentbed_data.mix import Mix
    from sentbed_data.nli import Nli
    from sentbed_data.nsp import Nsp
    from sentbed_data.pairs import Pairs
    from sentbed_data.parallel import Parallel
    from sentbed_data.qa import Qa
    from sentbed_data.sample_corpus import Sample
    from sentbed_data.synonyms import Synonyms
    from sentbed_data.triplets import Triplets

    return [Pairs, Triplets, Dropout, Crop, Delete, Synonyms, Nsp, Parallel, Nli, Qa, Mix, Sample]


@hookimpl
def known_data() -> tuple[KnownData, ...]:
    """Return the collections of data that the sources of this distribution read."""

    from sentbed_data.known_collections import KNOWN

    return KNOWN


@hookimpl
def findings(plugins: Plugins) -> list[Finding]:
    """Return which files and data sets can be read on this machine, and which known ones are present."""
    from sentbed_data.doctor import known, libraries

    return [*known(plugins), *libraries()]


@hookimpl
def commands() -> dict[str, LazyCommand]:
    """Return the command `data`."""
    return {
        "data": LazyCommand(
            "sentbed_data.data_command:data", "Find, check and download the data sets that the plugins know."
        )
    }
