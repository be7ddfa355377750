"""The sentence pairs for measures of geometry, with their positives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from sentbed import FilePath, locate

from sentbed_evaluators.line_aligned_pairs import ParallelFiles
from sentbed_evaluators.scored_pair_files import PairFile, ScoredPairs
from sentbed_evaluators.senteval_sts_files import find_files, read_task
from sentbed_evaluators.text_lines import Hashes


@attrs.frozen
class GeometryPairs:
    """Pairs of sentences, some of them positive."""

    task: str
    first: Sequence[str]
    second: Sequence[str]
    positive: Sequence[int]
    """Indices of the pairs that count for alignment."""
    protocol: Mapping[str, Any]
    """Description of the pairs, for the protocol."""

    @property
    def positive_texts(self) -> list[tuple[str, str]]:
        """The two sentences of each positive pair."""
        return [(self.first[pair], self.second[pair]) for pair in self.positive]


def of_parallel_files(
    files: ParallelFiles, task: str | None, split: str | None
) -> GeometryPairs:
    """Read line-aligned files; the aligned lines are the positive pairs."""
    hashes: Hashes = {}
    first, second = files.read(hashes)
    protocol = {
        "positives": "aligned lines",
        "negatives": f"a random other line after the aligned ones, seed {files.seed}",
        "split": split or "first lines",
        "data": [hashes[locate(path)] for path in (files.first, files.second)],
    }
    return GeometryPairs(
        task or files.task, first, second, range(files.positives), protocol
    )


def of_pair_file(
    file: PairFile, task: str | None, split: str | None, threshold: float
) -> GeometryPairs:
    """Read scored pairs; those with a gold score above `threshold` are positive."""
    path = locate(file.path)
    hashes: Hashes = {}
    pairs = file.read(hashes)
    about = {"split": split or "whole file", "data": hashes[path]}
    name = task or Path(path).stem
    return _scored(name, pairs, threshold, about)


def of_senteval(
    data_dir: FilePath | None, task: str, threshold: float, check_sizes: bool
) -> GeometryPairs:
    """Read a task of SentEval; the pairs with a gold score above `threshold` are positive."""
    pairs = read_task(find_files(data_dir), task, check_sizes)
    about = {"split": pairs.split, "data": pairs.data}
    return _scored(pairs.name, pairs.pairs, threshold, about)


def _scored(
    task: str,
    pairs: ScoredPairs,
    threshold: float,
    about: Mapping[str, Any],
) -> GeometryPairs:
    positive = [i for i, score in enumerate(pairs.scores) if score > threshold]
    protocol = {"positives": f"gold > {threshold:g}", **about}
    return GeometryPairs(task, pairs.first, pairs.second, positive, protocol)
