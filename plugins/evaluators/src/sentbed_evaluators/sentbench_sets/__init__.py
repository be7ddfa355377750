"""The pair and contrast sets of SentBench, built from the files of their sources."""

from __future__ import annotations

from sentbed_evaluators.sentbench_sets.building import SPLITS, Pair, Triple
from sentbed_evaluators.sentbench_sets.built_sets import BuiltSets, built_sets
from sentbed_evaluators.sentbench_sets.sources import (
    SOURCES,
    data_directory,
    find_files,
)

__all__ = [
    "SOURCES",
    "SPLITS",
    "BuiltSets",
    "Pair",
    "Triple",
    "built_sets",
    "data_directory",
    "find_files",
]
