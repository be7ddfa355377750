"""Sentence pairs for alignment and uniformity: from line-aligned files, scored pairs or tasks of SentEval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from sentbed import FilePath, locate
from sentbed.helpers import sha256

from sentbed_evaluators.line_aligned_pairs import ParallelFiles
from sentbed_evaluators.scored_pair_files import PairFile, ScoredPairs
from sentbed_evaluators.senteval_sts_files import find_files, read_task


@attrs.frozen
class GeometryPairs:
    """Pairs of sentences, of which some are positive."""

    task: str
    first: Sequence[str]
    second: Sequence[str]
    positive: Sequence[int]
    """Indices of the positive pairs, over which alignment is computed."""
    protocol: Mapping[str, Any]
    """Description of the pairs, for the protocol of a score."""

    @property
    def positive_texts(self) -> list[tuple[str, str]]:
        """The two sentences of each positive pair."""
        return [(self.first[pair], self.second[pair]) for pair in self.positive]


def of_parallel_files(
    files: ParallelFiles,
    task: str | None,
    split: str | None,
) -> GeometryPairs:
    """Read two line-aligned files; the pairs of aligned lines are positive."""
    first, second = files.read()
    protocol = {
        "positives": "aligned lines",
        "negatives": f"a random other line after the aligned ones, seed {files.seed}",
        "split": split or "first lines",
        "data": [sha256(locate(path)) for path in (files.first, files.second)],
    }
    return GeometryPairs(
        task or files.task, first, second, range(files.positives), protocol
    )


def of_pair_file(
    file: PairFile,
    task: str | None,
    split: str | None,
    threshold: float,
) -> GeometryPairs:
    """Read scored pairs; those with a gold score above `threshold` are positive."""
    pairs = file.read()
    data = {"split": split or "whole file", "data": sha256(locate(file.path))}
    return _scored(task or Path(file.path).stem, pairs, threshold, data)


def of_senteval(
    data_dir: FilePath | None,
    task: str,
    threshold: float,
    check_sizes: bool,
) -> GeometryPairs:
    """Read a task of SentEval; the pairs with a gold score above `threshold` are positive."""
    pairs = read_task(find_files(data_dir), task, check_sizes)
    data = {
        "split": pairs.split,
        "data": pairs.data,
        "text": "as in the file, white space as one space",
    }
    return _scored(pairs.name, pairs.pairs, threshold, data)


def _scored(
    task: str,
    pairs: ScoredPairs,
    threshold: float,
    data: Mapping[str, Any],
) -> GeometryPairs:
    """Return scored pairs, of which those with a score above `threshold` are positive.

    `data` describes the pairs in the protocol.
    """
    positive = []
    for index, score in enumerate(pairs.scores):
        if score > threshold:
            positive.append(index)
    protocol = {"positives": f"gold > {threshold:g}", **data}
    return GeometryPairs(task, pairs.first, pairs.second, positive, protocol)
