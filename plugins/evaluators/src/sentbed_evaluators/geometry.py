"""Alignment, uniformity and anisotropy of an embedding space."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

import attrs
from sentbed import DataError, FilePath, locate
from sentbed.errors import suggest
from sentbed.helpers import sha256
from sentbed.protocols import (
    Evaluation,
    Evaluator,
    Items,
    Prepared,
    Score,
    Texts,
    Vectors,
)

from sentbed_evaluators.cosine_correlation import nonzero
from sentbed_evaluators.degenerate_scores import collapsed
from sentbed_evaluators.geometry_measures import (
    distances,
    mean_cosine,
    top_singular_share,
    uniformity,
)
from sentbed_evaluators.line_aligned_pairs import ParallelFiles
from sentbed_evaluators.scored_pair_files import PairFile
from sentbed_evaluators.senteval_sts_files import (
    DEVELOPMENT,
    TASKS,
    find_files,
    read_task,
)
from sentbed_evaluators.task_suites import task_problems

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Convention: TypeAlias = Literal["wang-isola", "st5"]
Measure: TypeAlias = Literal["alignment", "uniformity", "anisotropy"]

_FORMULAS: dict[str, dict[str, str]] = {
    "wang-isola": {"alignment": "E ||x-y||^2", "uniformity": "log E exp(-2 ||x-y||^2)"},
    "st5": {"alignment": "E ||x-y||", "uniformity": "log E exp(-2 ||x-y||)"},
}
_DEFAULT_TASK = "STSB"


@attrs.frozen
class Geometry(Evaluator):
    """Alignment of positive pairs, uniformity and anisotropy of all sentences.

    For alignment and uniformity, lower is better. No measure is multiplied by 100.

    Alignment and uniformity use distances of L2-normalised embeddings. Wang & Isola (2020, section 4.1) and
    SimCSE square the distances; Sentence-T5 does not. Numbers of the two conventions are not comparable, so the
    convention is the protocol id of a score.

    Alignment is the mean distance over the positive pairs: the pairs with a gold score above `threshold`, or the
    aligned pairs of `parallel` files. Uniformity is computed over all pairs of sentences in one list, which has
    the first sides and then the second sides; a sentence that occurs twice counts twice. Memory grows with the
    number of sentences, not with its square. A `second` encoder encodes the second sides.

    Anisotropy is two scores with a protocol id of their own. `anisotropy` is the mean cosine over the same pairs
    as uniformity (Ethayarajh 2019, but over all pairs instead of a sample). `top-singular-share` is
    s_1^2 / sum s_i^2, where s_i are the singular values of the embedding matrix, neither centred nor normalised;
    it is 1 if all vectors are on one line.

    Confidence intervals exist for alignment only: its pairs can be resampled. For the other measures, sentences
    would have to be resampled, and a sentence that is drawn twice would form a pair with itself.

    `primary` is -(alignment + uniformity) under the first of `protocols`; if only one of the two is measured, it
    is minus that one, and if neither is, minus the mean cosine.
    """

    name: ClassVar[str] = "geometry"

    path: FilePath | None = None
    """File of scored pairs with the columns `sentence1`, `sentence2` and `score`; default: a task of the SentEval
    directory."""
    parallel: tuple[FilePath, FilePath] | None = None
    """Instead of `path`: two text files with one sentence per line, in which line n of one is the translation of
    line n of the other. The first file has the first sides of the pairs."""
    pairs: int = 1000
    """For `parallel`: number of lines to use, from the first on. The appendix of the paper "Learning Universal
    Sentence Embeddings with Large-scale Parallel Translation Datasets" uses 1,000."""
    positives: int = 250
    """For `parallel`: number of pairs, from the first on, that stay aligned. Each further pair gets its second
    side from another line, which is drawn at random from the lines after the aligned ones."""
    seed: int = 0
    """For `parallel`: seed of the random lines."""
    task: str | None = None
    """With `path` or `parallel`, the name in the scores (default: the file's name without suffix). Otherwise,
    the task of `senteval-sts` that has the pairs (default: `STSB`, the test split; for curves in training,
    use `STSB-dev`)."""
    split: Literal["train", "dev", "test"] | None = None
    """With `path` or `parallel`: the split to which the files belong, for the protocol. Only on `dev` or `train`
    can a checkpoint be chosen. Default: not stated."""
    data_dir: FilePath | None = None
    """Without `path` and `parallel`: SentEval's `downstream` directory or one above it; default:
    `SENTBED_DATA`."""
    threshold: float = 4.0
    """Gold score above which a pair is positive (STS-B: 0 to 5)."""
    protocols: tuple[Convention, ...] = ("wang-isola", "st5")
    """Conventions to report: `wang-isola` squares distances, `st5` does not."""
    measures: tuple[Measure, ...] = ("alignment", "uniformity")
    """Measures to compute, among `alignment`, `uniformity` and `anisotropy`."""
    check_sizes: bool = True
    """For a task of SentEval: whether other numbers of pairs than published are an error."""

    cites = ("wang2020alignment",)
    two_sided = True

    @property
    def development(self) -> bool:
        """Whether the data is stated to be `train` or `dev`."""
        if self.path is not None or self.parallel is not None:
            return self.split in ("train", "dev")
        return self.task in DEVELOPMENT

    def check(self) -> Iterator[str]:
        """Yield problems with data and parameters."""
        yield from task_problems(self.protocols, _FORMULAS, self.name, "protocol")
        yield from task_problems(self.measures, get_args(Measure), self.name, "measure")
        if not math.isfinite(self.threshold):
            yield f"`threshold` is {self.threshold!r}; give a finite gold score, such as 4.0"
        sources = []
        for name in ("path", "parallel", "data_dir"):
            if getattr(self, name) is not None:
                sources.append(name)

        if len(sources) > 1:
            yield f"`{sources[0]}` and `{sources[1]}` exclude each other; remove one"
        if self.parallel is not None:
            yield from self._parallel(self.parallel).problems()
            return
        if self.path is not None:
            yield from self._file(self.path).problems()
            return
        if self.split is not None:
            yield "`split` is for a file; the split of a task of SentEval is known; remove it"
        task = self.task or _DEFAULT_TASK
        if task not in TASKS:
            yield f"`{task}` is not a task of `senteval-sts`.{suggest(task, TASKS)}"
            return
        try:
            yield from find_files(self.data_dir).missing([task]).values()
        except DataError as error:
            yield str(error)

    def files(self) -> Iterator[Path]:
        """Yield the files of SentEval's task, unless `path` or `parallel` is set."""
        task = self.task or _DEFAULT_TASK
        if self.path is None and self.parallel is None and task in TASKS:
            yield from find_files(self.data_dir).by_task[task]

    def prepare(self) -> Prepared:
        """Read the pairs.

        Raises:
            DataError: if a file is malformed, with file and line; or if alignment is to be measured and no pair
                is positive.
        """
        pairs = self._read()
        texts = {"pairs": Texts(pairs.first, pairs.second)}
        return Prepared(
            texts,
            partial(self._score, pairs),
            item_texts=lambda: {pairs.task: pairs.positive_texts},
        )

    def _score(self, pairs: _Pairs, vectors: Vectors) -> Evaluation:
        """Compute the measures; raises `RunError` if an embedding is not finite, or is zero."""
        rows = nonzero(vectors, "pairs")
        scores = list(self._by_convention(pairs, rows))
        # Anisotropy measures how far vectors have collapsed, so its scores are never degenerate.
        scores += self._anisotropy(pairs, rows)
        measured = {"alignment", "uniformity"}.intersection(self.measures)
        main = scores[: len(measured) or 1]

        return Evaluation(tuple(scores), primary=-sum(score.value for score in main))

    def _by_convention(
        self, pairs: _Pairs, vectors: NDArray[np.float32]
    ) -> Iterator[Score]:
        """Yield alignment and uniformity under each convention."""
        score = partial(
            Score, pairs.task, direction="lower", degenerate=collapsed(vectors)
        )
        count = len(pairs.first)
        for convention in self.protocols:
            squared = convention == "wang-isola"
            formulas = _FORMULAS[convention]
            if "alignment" in self.measures:
                values = distances(vectors, pairs.positive, count, squared=squared)
                protocol = _protocol(pairs, convention, formulas["alignment"], "L2")
                items = Items("mean", values, scale=1.0)
                value = float(values.mean())
                yield score("alignment", value, protocol, items=items, axis="y")
            if "uniformity" in self.measures:
                protocol = _protocol(pairs, convention, formulas["uniformity"], "L2")
                value = uniformity(vectors, squared=squared)
                yield score("uniformity", value, protocol, axis="x")

    def _anisotropy(
        self, pairs: _Pairs, vectors: NDArray[np.float32]
    ) -> Iterator[Score]:
        """Yield the two scores of anisotropy, if `measures` has `anisotropy`."""
        if "anisotropy" not in self.measures:
            return
        score = partial(Score, pairs.task, direction="none")
        protocol = _protocol(pairs, "anisotropy", "E cos(x,y)", "L2")
        yield score("anisotropy", mean_cosine(vectors), protocol)
        protocol = _protocol(pairs, "anisotropy", "s_1^2 / sum s_i^2, uncentred", "no")
        yield score("top-singular-share", top_singular_share(vectors), protocol)

    def _file(self, path: FilePath) -> PairFile:
        """Return the file of scored pairs, with its layout."""
        return PairFile(path, ("sentence1", "sentence2", "score"))

    def _parallel(self, files: tuple[FilePath, FilePath]) -> ParallelFiles:
        """Return the two line-aligned files, and which pairs are formed from them."""
        return ParallelFiles(*files, self.pairs, self.positives, self.seed)

    def _read(self) -> _Pairs:
        """Read the pairs from the files or from a task of SentEval; raises `DataError`."""
        for problem in self.check():
            raise DataError(problem)
        if self.parallel is not None:
            return self._read_parallel(self._parallel(self.parallel))

        facts: dict[str, Any] = {"positives": f"gold > {self.threshold:g}"}
        if self.path is not None:
            task = self.task or Path(self.path).stem
            scored = self._file(self.path).read()
            facts["split"] = self.split or "whole file"
            facts["data"] = sha256(locate(self.path))
        else:
            files = find_files(self.data_dir)
            read = read_task(files, self.task or _DEFAULT_TASK, self.check_sizes)
            task = read.name
            scored = read.pairs
            facts["split"] = read.split
            facts["data"] = read.data
            facts["text"] = "as in the file, white space as one space"

        positive = []
        for index, score in enumerate(scored.scores):
            if score > self.threshold:
                positive.append(index)

        if "alignment" in self.measures and not positive:
            raise DataError(
                f"no pair of `{task}` has a gold score above `threshold` = {self.threshold:g}; "
                f"lower `threshold`, or leave `alignment` out of `measures`"
            )
        return _Pairs(task, scored.first, scored.second, positive, facts)

    def _read_parallel(self, files: ParallelFiles) -> _Pairs:
        """Read two line-aligned files; the pairs of aligned lines are positive."""
        first, second = files.read()
        negatives = f"a random other line after the aligned ones, seed {files.seed}"
        facts = {
            "positives": "aligned lines",
            "negatives": negatives,
            "split": self.split or "first lines",
            "data": [sha256(locate(path)) for path in (files.first, files.second)],
        }
        task = self.task or files.task
        return _Pairs(task, first, second, range(files.positives), facts)


@attrs.frozen
class _Pairs:
    """Pairs of sentences, of which some are positive."""

    task: str
    first: Sequence[str]
    second: Sequence[str]
    positive: Sequence[int]
    """Indices of the positive pairs, over which alignment is computed."""
    facts: Mapping[str, Any]
    """Description of the pairs, for the protocol of a score."""

    @property
    def positive_texts(self) -> list[tuple[str, str]]:
        """The two sentences of each positive pair."""
        return [(self.first[pair], self.second[pair]) for pair in self.positive]


def _protocol(
    pairs: _Pairs,
    name: str,
    formula: str,
    normalised: str,
) -> dict[str, Any]:
    """Return the protocol of a score: its convention, its formula and the description of the pairs."""
    return {
        "id": name,
        "formula": formula,
        "normalised": normalised,
        "positive_pairs": len(pairs.positive),
        "pairs": len(pairs.first),
        "sentences": 2 * len(pairs.first),
        "duplicates": "kept",
        "aggregation": "single",
        "text": "as in the file",
        **pairs.facts,
    }
