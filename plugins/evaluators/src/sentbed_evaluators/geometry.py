"""Alignment and uniformity of an embedding space."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

import attrs
from sentbed import DataError, FilePath, RunError, locate
from sentbed.errors import suggest
from sentbed.paths import sha256
from sentbed.protocols import Evaluation, Score, TextEncoder

from sentbed_evaluators.pairs import PairFile
from sentbed_evaluators.parallel import ParallelFiles
from sentbed_evaluators.senteval_files import (
    DEVELOPMENT,
    TASKS,
    find_root,
    missing_files,
    missing_message,
    read_task,
)
from sentbed_evaluators.similarity import embed_sides, zero_vectors

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
class _Pairs:
    task: str
    first: Sequence[str]
    second: Sequence[str]
    positive: Sequence[int]
    """The places of the pairs that count for alignment."""
    protocol: Mapping[str, Any]
    """Which pairs these are."""


@attrs.frozen
class Geometry:
    """Alignment of positive pairs and uniformity of all sentences, on L2-normalised embeddings.

    Of both, lower is better. Wang & Isola (2020, section 4.1) and SimCSE square the distances; Sentence-T5
    does not. The numbers cannot be compared, so each carries its convention as protocol id. They are not
    multiplied by 100.

    Alignment is the mean over the positive pairs: those with a gold score above `threshold`, or the aligned
    ones of `parallel` files. Uniformity is over all unordered pairs of different positions in the list of all
    sentences (first sides, then second sides), a sentence that occurs twice counting twice. Memory grows with
    the number of sentences, not with its square. With a `second` encoder the second sides are encoded by it.

    `primary` is -(alignment + uniformity) under the first of `protocols`.
    """

    name: ClassVar[str] = "geometry"
    two_sided: ClassVar[bool] = True

    path: FilePath | None = None
    """File of scored pairs, read as by `sts`; default: a task of the SentEval directory."""
    parallel: tuple[FilePath, FilePath] | None = None
    """Instead of `path`: two text files, one sentence a line, line n of one the translation of line n of the
    other; the first one's sentences are the first sides."""
    pairs: int = 1000
    """Of `parallel`: how many pairs, from the first lines. The translation-pairs paper's appendix takes
    1,000."""
    positives: int = 250
    """Of `parallel`: so many of the first pairs are the aligned ones; in the others the second side is that
    of a random other line after these."""
    seed: int = 0
    """Of `parallel`: decides which lines those are."""
    task: str | None = None
    """With `path` or `parallel`, the name in the scores (default: the file's name without suffix). Without,
    the task of `senteval-sts` to take the pairs from (default: `STSB`, the test split; curves in training use
    `STSB-dev`)."""
    split: Literal["train", "dev", "test"] | None = None
    """With `path` or `parallel`, which split that is, for the protocol; a checkpoint is chosen on `dev` or
    `train` only. Default: not said."""
    data_dir: FilePath | None = None
    """SentEval's `downstream` directory or one above it, used without a file; default: `SENTBED_DATA`."""
    columns: tuple[str, str, str] = ("sentence1", "sentence2", "score")
    """First sentence, second sentence and score in `path`: names, or positions with `header = false`."""
    header: bool = True
    """Whether the first line of `path` names the columns."""
    separator: str | None = None
    """What stands between two columns of `path`; default: by the suffix."""
    encoding: str = "utf-8"
    """Text encoding of `path` or `parallel`."""
    threshold: float = 4.0
    """A pair is positive where its gold score is greater than this (STS-B: 0 to 5)."""
    protocols: tuple[Convention, ...] = ("wang-isola", "st5")
    """Conventions to report: `wang-isola` squares distances, `st5` does not."""

    @property
    def development(self) -> bool:
        """Whether the pairs are a development or training task of SentEval's, or files said to be such."""
        if self.path is None and self.parallel is None:
            return self.task in DEVELOPMENT
        return self.split in ("train", "dev")

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
        given = [name for name in ("path", "parallel", "data_dir") if getattr(self, name) is not None]
        if len(given) > 1:
            yield f"`{given[0]}` and `{given[1]}` exclude each other; remove one"
        if self.parallel is not None:
            yield from self._parallel(self.parallel).problems()
            return
        if self.path is not None:
            yield from self._file(self.path).problems()
            return
        if self.split is not None:
            yield "`split` says what a file is, a task of SentEval's says so itself; remove it"
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
        """Encode all sentences and measure.

        Raises:
            DataError: where the data cannot be read (names file and line) or no pair is positive.
            RunError: where an embedding is not finite, or zero and so without direction, or the sides differ
                in width.
        """
        for problem in self.check():
            raise DataError(problem)
        pairs = self._read()
        vectors = embed_sides(encoder, pairs.first, pairs.second)
        if zeros := zero_vectors(vectors):
            raise RunError(
                f"{zeros} of {len(vectors)} embeddings are zero vectors, which cannot be normalised; "
                f"check the pooler"
            )
        scores: list[Score] = []
        for convention in self.protocols:
            squared = convention == "wang-isola"
            values = {
                "alignment": alignment(vectors, pairs.positive, len(pairs.first), squared=squared),
                "uniformity": uniformity(vectors, squared=squared),
            }
            for metric, value in values.items():
                protocol: dict[str, Any] = {
                    "id": convention,
                    "formula": _FORMULAS[convention][metric],
                    "normalised": "L2",
                    "positive_pairs": len(pairs.positive),
                    "pairs": len(pairs.first),
                    "sentences": len(vectors),
                    "duplicates": "kept",
                    "aggregation": "single",
                    "text": "as in the file",
                    **pairs.protocol,
                }
                scores.append(Score(pairs.task, metric, value, protocol))
        return Evaluation(tuple(scores), primary=-(scores[0].value + scores[1].value))

    def _file(self, path: FilePath) -> PairFile:
        return PairFile(path, self.columns, self.header, self.separator, self.encoding)

    def _parallel(self, files: tuple[FilePath, FilePath]) -> ParallelFiles:
        return ParallelFiles(*files, self.pairs, self.positives, self.seed, self.encoding)

    def _read(self) -> _Pairs:
        if self.parallel is not None:
            return self._read_parallel(self._parallel(self.parallel))
        if self.path is not None:
            path = locate(self.path)
            pairs = self._file(self.path).read()
            task, data = self.task or Path(path).stem, sha256(path)
            split: str = self.split or "whole file"
            first, second, scores = list(pairs.first), list(pairs.second), list(pairs.scores)
        else:
            found = read_task(find_root(self.data_dir), self.task or _DEFAULT_TASK)
            task, split, data = found.name, found.split, found.data
            first = [text for subset in found.subsets for text in subset.first]
            second = [text for subset in found.subsets for text in subset.second]
            scores = [score for subset in found.subsets for score in subset.scores]
        positive = [i for i, score in enumerate(scores) if score > self.threshold]
        if not positive:
            raise DataError(
                f"no pair of `{task}` has a gold score above `threshold` = {self.threshold:g} (the highest "
                f"is {max(scores):g}); lower `threshold`"
            )
        protocol = {"positives": f"gold > {self.threshold:g}", "split": split, "data": data}
        return _Pairs(task, first, second, positive, protocol)

    def _read_parallel(self, files: ParallelFiles) -> _Pairs:
        first, second = files.read()
        protocol = {
            "positives": "aligned lines",
            "negatives": f"a random other line after the aligned ones, seed {self.seed}",
            "split": self.split or "first lines",
            "data": [sha256(locate(path)) for path in (files.first, files.second)],
        }
        return _Pairs(self.task or files.task, first, second, range(self.positives), protocol)


def alignment(
    vectors: NDArray[np.floating[Any]], positive: Sequence[int], offset: int, *, squared: bool
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
