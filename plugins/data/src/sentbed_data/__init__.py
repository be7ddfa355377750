"""Data sources for sentbed: pairs, triplets, plain sentences, and a small synthetic sample corpus."""

from __future__ import annotations

from sentbed import hookimpl

from sentbed_data.dropout import Dropout
from sentbed_data.pairs import Pairs
from sentbed_data.sample_corpus import Sample
from sentbed_data.triplets import Triplets

__all__ = ["Dropout", "Pairs", "Sample", "Triplets", "data_sources"]


@hookimpl
def data_sources() -> list[type]:
    """Return the data sources of this distribution."""
    return [Pairs, Triplets, Dropout, Sample]
