"""A pooler with a learned query, an intervention and a reader of JSON Lines, for sentbed."""

from __future__ import annotations

from sentbed import hookimpl
from sentbed.protocols import DataSource, Intervention, Pooler

from sentbed_attention.attention import Attention
from sentbed_attention.jsonl_pairs import JsonlPairs
from sentbed_attention.mean_prepending import MeanPrepending

__all__ = [
    "Attention",
    "JsonlPairs",
    "MeanPrepending",
    "data_sources",
    "interventions",
    "poolers",
]

"""The version of sentbed's interface that this plugin is written for."""


@hookimpl
def poolers() -> list[type[Pooler]]:
    """Return the poolers of this distribution."""
    return [Attention]


@hookimpl
def interventions() -> list[type[Intervention]]:
    """Return the interventions of this distribution."""
    return [MeanPrepending]


@hookimpl
def data_sources() -> list[type[DataSource]]:
    """Return the data sources of this distribution."""
    return [JsonlPairs]
