"""Alignment and uniformity of an embedding space."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

import attrs
from sentbed import DataError, FilePath, RunError, locate
from sentbed.errors import suggest
from sentbed.paths import sha256
from sentbed.protocols import Evaluation, Score, TextEncoder

from sentbed_evaluators.pairs import PairFile, ScoredPairs
from sentbed_evaluators.senteval_files import (
    DEVELOPMENT,
    TASKS,
    find_root,
    missing_files,
    missing_message,
    read_task,
)
from sentbed_evaluators.similarity import embed, zero_vectors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Convention: TypeAlias = Literal["wang-isola", "st5"]

_FORMULAS: dict[str, dict[str, str]] = {
    "wang-isola": {"alignment": "E ||x-y||^2", "uniformity": "log E exp(-2 ||x-y||^2)"},
    "st5": {"alignment": "E ||x-y||", "uniformity": "log E exp(-2 ||x-y||)"},
}
_DEFAULT_TASK = "STSB"
_BLOCK = 1024


@attrs.frozen
class Geometry:
    """Alignment of positive pairs and uniformity of all sentences, on L2-normalised embeddings.

    Of both, lower is better. Wang & Isola (2020, section 4.1) and SimCSE square the distances; Sentence-T5
    does not. The numbers cannot be compared, so each carries its convention as protocol id. They are not
    multiplied by 100.

    Alignment is the mean over pairs with a gold score above `threshold`; uniformity is over all unordered
    pairs of different positions in the list of all sentences (first sides, then second sides), a sentence
    that occurs twice counting twice. Memory grows with the number of sentences, not with its square.

    `primary` is -(alignment + uniformity) under the first of `protocols`.
    """

    name: ClassVar[str] = "geometry"

    path: FilePath | None = None
    """File of scored pairs, read as by `sts`; default: a task of the SentEval directory."""
    task: str | None = None
    """With `path`, the name in the scores (default: the file's name without suffix). Without it, the task of
    `senteval-sts` to take the pairs from (default: `STSB`, the test split; curves in training use
    `STSB-dev`)."""
    data_dir: FilePath | None = None
    """SentEval's `downstream` directory or one above it, used without `path`; default: `SENTBED_DATA`."""
    columns: tuple[str, str, str] = ("sentence1", "sentence2", "score")
    """First sentence, second sentence and score in `path`: names, or positions with `header = false`."""
    header: bool = True
    """Whether the first line of `path` names the columns."""
    separator: str | None = None
    """What stands between two columns of `path`; default: by the suffix."""
    encoding: str = "utf-8"
    """Text encoding of `path`."""
    threshold: float = 4.0
    """A pair is positive where its gold score is greater than this (STS-B: 0 to 5)."""
    protocols: tuple[Convention, ...] = ("wang-isola", "st5")
    """Conventions to report: `wang-isola` squares distances, `st5` does not."""

    @property
    def development(self) -> bool:
        """Whether the pairs are a development or training task of SentEval's; of a file nobody knows."""
        return self.path is None and self.task in DEVELOPMENT

    def check(self) -> Iterator[str]:
        """Yield missing data and parameters that cannot be used."""
        if not self.protocols or len(set(self.protocols)) != len(self.protocols):
            yield "`protocols` is empty or names one twice; give `wang-isola`, `st5` or both"
        for protocol in self.protocols:
            if protocol not in _FORMULAS:
                hint = suggest(protocol, get_args(Convention))
                yield f"`{protocol}` is not a protocol of `{self.name}`.{hint}"
        if not math.isfinite(self.threshold):
            yield f"`threshold` is {self.threshold!r}; give a finite gold score, such as 4.0"
        if self.path is not None:
            if self.data_dir is not None:
                yield "`path` and `data_dir` exclude each other; remove one"
            yield from self._file(self.path).problems()
            return
        task = self.task or _DEFAULT_TASK
        if task not in TASKS:
            yield f"`{task}` is not a task of `senteval-sts`.{suggest(task, TASKS)}"
            return
        try:
            root = find_root(self.data_dir)
        except DataError as error:
            yield str(error)
            return
        if missing_files(root, task):
            yield missing_message(root, task)

    def evaluate(self, encoder: TextEncoder) -> Evaluation:
        """Encode all sentences in one call and measure.

        Raises:
            DataError: where the data cannot be read (names file and line) or no pair is positive.
            RunError: where an embedding is not finite, or zero and so without direction.
        """
        for problem in self.check():
            raise DataError(problem)
        task, split, pairs, data = self._read()
        positive = [i for i, score in enumerate(pairs.scores) if score > self.threshold]
        if not positive:
            raise DataError(
                f"no pair of `{task}` has a gold score above `threshold` = {self.threshold:g} (the highest "
                f"is {max(pairs.scores):g}); lower `threshold`"
            )
        vectors = embed(encoder, [*pairs.first, *pairs.second])
        if zeros := zero_vectors(vectors):
            raise RunError(
                f"{zeros} of {len(vectors)} embeddings are zero vectors, which cannot be normalised; "
                f"check the pooler"
            )
        scores: list[Score] = []
        for convention in self.protocols:
            squared = convention == "wang-isola"
            values = {
                "alignment": alignment(vectors, positive, len(pairs), squared=squared),
                "uniformity": uniformity(vectors, squared=squared),
            }
            for metric, value in values.items():
                protocol: dict[str, Any] = {
                    "id": convention,
                    "formula": _FORMULAS[convention][metric],
                    "normalised": "L2",
                    "positives": f"gold > {self.threshold:g}",
                    "positive_pairs": len(positive),
                    "pairs": len(pairs),
                    "sentences": len(vectors),
                    "duplicates": "kept",
                    "aggregation": "single",
                    "split": split,
                    "text": "as in the file",
                    "data": data,
                }
                scores.append(Score(task, metric, value, protocol))
        return Evaluation(tuple(scores), primary=-(scores[0].value + scores[1].value))

    def _file(self, path: FilePath) -> PairFile:
        return PairFile(path, self.columns, self.header, self.separator, self.encoding)

    def _read(self) -> tuple[str, str, ScoredPairs, str]:
        """Return task name, split, pairs and data hash."""
        if self.path is not None:
            path = locate(self.path)
            return self.task or Path(path).stem, "whole file", self._file(self.path).read(), sha256(path)
        task = read_task(find_root(self.data_dir), self.task or _DEFAULT_TASK)
        pairs = ScoredPairs(
            first=tuple(text for subset in task.subsets for text in subset.first),
            second=tuple(text for subset in task.subsets for text in subset.second),
            scores=tuple(score for subset in task.subsets for score in subset.scores),
        )
        return task.name, task.split, pairs, task.data


def alignment(
    vectors: NDArray[np.floating[Any]], positive: list[int], offset: int, *, squared: bool
) -> float:
    """Return the mean distance of rows `i` and `offset + i`, `i` in `positive`, after L2 normalisation."""
    import numpy as np

    total = 0.0
    for start in range(0, len(positive), _BLOCK):
        rows = np.asarray(positive[start : start + _BLOCK])
        difference = _normalise(vectors[rows]) - _normalise(vectors[rows + offset])
        distances = (difference**2).sum(axis=1)
        total += float((distances if squared else np.sqrt(distances)).sum())
    return total / len(positive)


def uniformity(vectors: NDArray[np.floating[Any]], *, squared: bool, block: int = _BLOCK) -> float:
    """Return log E exp(-2 d) over all row pairs i < j after L2 normalisation, in blocks of `block` rows.

    Distances of unit vectors lie in [0, 2], so the terms lie in [exp(-8), 1] and their plain sum in float64
    neither overflows nor vanishes.
    """
    import numpy as np

    sums: list[float] = []
    for left in range(0, len(vectors), block):
        a = _normalise(vectors[left : left + block])
        for right in range(left, len(vectors), block):
            b = a if right == left else _normalise(vectors[right : right + block])
            distances = np.maximum(2 - 2 * (a @ b.T), 0)
            terms = np.exp(-2 * (distances if squared else np.sqrt(distances)))
            sums.append(float((np.triu(terms, k=1) if right == left else terms).sum()))
    count = len(vectors) * (len(vectors) - 1) // 2
    return math.log(math.fsum(sums) / count)


def _normalise(rows: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    import numpy as np

    wide: NDArray[np.float64] = rows.astype(np.float64)
    unit: NDArray[np.float64] = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    return unit
