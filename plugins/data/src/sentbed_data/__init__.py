"""Data sources for sentbed: pairs, triplets, labelled rows, prose, altered sentences, a sample corpus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sentbed import hookimpl

if TYPE_CHECKING:
    from sentbed_common import KnownData


@hookimpl
def data_sources() -> Mapping[str, str]:
    """Return the data sources of this distribution."""
    return {
        "pairs": "sentbed_data.pairs:Pairs",
        "triplets": "sentbed_data.triplets:Triplets",
        "dropout": "sentbed_data.dropout:Dropout",
        "crop": "sentbed_data.crop:Crop",
        "delete": "sentbed_data.delete:Delete",
        "synonyms": "sentbed_data.synonyms:Synonyms",
        "nsp": "sentbed_data.nsp:Nsp",
        "parallel": "sentbed_data.parallel:Parallel",
        "clean-pairs": "sentbed_data.clean_pairs:CleanPairs",
        "nli": "sentbed_data.nli:Nli",
        "qa": "sentbed_data.qa:Qa",
        "scored": "sentbed_data.scored:Scored",
        "for-teacher": "sentbed_data.for_teacher:ForTeacher",
        "mix": "sentbed_data.mix:Mix",
        "sample": "sentbed_data.bundled_sample:Sample",
    }


@hookimpl
def known_data() -> tuple[KnownData, ...]:
    """Return the known collections of data files that the sources of this distribution read."""

    from sentbed_common import read_collections

    return read_collections("sentbed_data")


@hookimpl
def commands() -> Mapping[str, str]:
    """Return the command `data`."""
    return {"data": "sentbed_data.data_command:data"}
