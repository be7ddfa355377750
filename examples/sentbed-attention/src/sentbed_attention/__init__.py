"""A pooler with a learned query and a reader of JSON Lines, for sentbed."""

from __future__ import annotations

from sentbed import hookimpl
from sentbed.protocols import DataSource, Pooler

from sentbed_attention.attention import Attention
from sentbed_attention.jsonl_pairs import JsonlPairs

__all__ = ["Attention", "JsonlPairs", "data_sources", "poolers", "sentbed_api"]

sentbed_api = "2.0"
"""The version of sentbed's interface that this plugin is written for."""


@hookimpl
def poolers() -> list[type[Pooler]]:
    """Return the poolers of this distribution."""
    return [Attention]


@hookimpl
def data_sources() -> list[type[DataSource]]:
    """Return the data sources of this distribution."""
    return [JsonlPairs]
