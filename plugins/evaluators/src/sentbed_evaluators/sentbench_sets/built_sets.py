"""The pair and contrast sets of SentBench, built from the files of their sources."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import attrs

from sentbed_evaluators.sentbench_sets.building import (
    SPLITS,
    Pair,
    Triple,
    build_sets,
)
from sentbed_evaluators.sentbench_sets.sources import SOURCES, Sizes, SourceFiles

VERSION = 1
"""Version of the construction. It is raised when a change gives other sets for the same source files."""


@attrs.frozen(eq=False)
class BuiltSets:
    """The pair sets and the contrast set of one task."""

    task: str
    pairs: Mapping[str, Sequence[Pair]]
    """Pairs of each split: `train`, `valid`, `test`."""
    triples: Sequence[Triple]
    source: str
    """SHA-256 over the files of the source."""
    seed: int

    @property
    def pairs_hash(self) -> str:
        """SHA-256 over the pairs of all splits."""
        lines = []
        for split in SPLITS:
            lines.append(f"{split} {_hash(self.pairs[split])}\n")
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    @property
    def triples_hash(self) -> str:
        """SHA-256 over the triples."""
        return _hash(self.triples)

    @property
    def paper(self) -> Sizes:
        """The sizes in the paper's Table 1."""
        return SOURCES[self.task].sizes

    def describe(self) -> dict[str, Any]:
        """Return the description of the sets for the protocol of a score."""
        return {
            "builder": VERSION,
            "set_seed": self.seed,
            "text": "as in the file",
            "source": self.source,
        }


def built_sets(
    files: SourceFiles,
    seed: int,
    limit: int | None = None,
) -> BuiltSets:
    """Build a task's sets from the files of its source.

    `limit` is the largest number of pairs in each split, and the largest number of triples.
    Raises `DataError`, with file and line, if the source is malformed or too small.
    """
    read = SOURCES[files.task].read
    pair_rows = chain.from_iterable(map(read, files.pairs))
    contrast_rows = chain.from_iterable(map(read, files.contrast))
    pairs, triples = build_sets(files.task, pair_rows, contrast_rows, seed, limit)
    return BuiltSets(files.task, pairs, triples, files.data, seed)


def _hash(entries: Sequence[Pair | Triple]) -> str:
    """Return the SHA-256 of entries as JSON Lines."""
    digest = hashlib.sha256()
    for entry in entries:
        line = json.dumps(entry, ensure_ascii=False) + "\n"
        digest.update(line.encode())
    return digest.hexdigest()
