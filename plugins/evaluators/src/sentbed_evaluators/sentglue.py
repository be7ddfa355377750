"""SentGLUE: linear classifiers on frozen sentence vectors for the tasks of GLUE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import attrs
from sentbed import DataError, FilePath, RunError
from sentbed.protocols import (
    Evaluation,
    Items,
    Prepared,
    Score,
    Texts,
    Vectors,
)
from sentbed_common import pairwise_similarities

from sentbed_evaluators.cosine_correlation import correlation_score, require_varied
from sentbed_evaluators.data_directories import TaskFiles, digest
from sentbed_evaluators.degenerate_scores import one_class
from sentbed_evaluators.glue_files import (
    CLASSIFIED,
    STS_B,
    TASKS,
    find_files,
    read_sts_b,
)
from sentbed_evaluators.pair_features import FORMULAS
from sentbed_evaluators.probe import Classifier
from sentbed_evaluators.probe_task import LabelledTexts, ProbeTask, TextVectors
from sentbed_evaluators.relatedness import EncodedPairs, Relatedness
from sentbed_evaluators.scored_pair_files import ScoredPairs
from sentbed_evaluators.task_suites import (
    FileSuite,
    average,
    mean_value,
    part_progress,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FOLDED = ("CoLA", "MRPC", "RTE")
"""Tasks whose penalty is chosen by cross-validation, as they have few training rows."""


@attrs.frozen(eq=False)
class _Classified:
    """Tasks that share a training set, and so a classifier. Only MNLI is more than one task."""

    probe: ProbeTask
    """Its test split has the development sets of all tasks."""
    tests: Mapping[str, LabelledTexts]
    """Development set of each task."""
    hashes: Mapping[str, str]
    """Hash of the files of each task."""


@attrs.frozen(eq=False)
class _StsB:
    """The pairs of STS-B."""

    parts: Sequence[ScoredPairs]
    """For a regression, the pairs to train on and the held-out ones that stop it; then the development set."""
    data: str
    """Hash of the files."""

    @property
    def texts(self) -> list[str]:
        """The distinct texts of all pairs."""
        texts: dict[str, None] = {}
        for pairs in self.parts:
            texts |= dict.fromkeys([*pairs.first, *pairs.second])
        return list(texts)


@attrs.frozen
class SentGLUE(FileSuite):
    """SentGLUE (Sentence-T5, section 8): nine tasks of GLUE on its development sets, x 100.

    Each sentence is encoded separately. A linear classifier is trained on GLUE's training set. Its features are u
    for a single sentence and [u, v, u*v, |u-v|] for a pair. CoLA is scored by Matthews correlation, STS-B by the
    Spearman correlation of `similarity` and gold score, and the other tasks by accuracy. If all nine tasks ran,
    the score `AVG` is their mean. In table 6 of the paper, the column Score is not this mean for the rows of
    embeddings, so compare task by task. `primary` is the mean over the tasks that ran.

    Since scores are on the development sets, these cannot be used to choose a penalty or to stop a training.
    CoLA, MRPC and RTE use cross-validation on the training set for that; SST-2, QQP, MNLI, QNLI and STS-B use a
    held-out part of it. For the same reason, this evaluator cannot choose a checkpoint. MNLI-m and MNLI-mm are
    scored with the same classifier.

    The vectors of a task's distinct sentences and the features of its rows are in memory (MNLI at width 1024:
    about 2 GB and 6.4 GB).
    """

    name: ClassVar[str] = "sentglue"
    choices = TASKS
    cites = ("wang2019glue", "ni2022sentencet5")

    tasks: tuple[str, ...] = tuple(TASKS)
    """Tasks in the order of the report: `CoLA`, `SST-2`, `MRPC`, `STS-B`, `QQP`, `MNLI-m`, `MNLI-mm`, `QNLI`,
    `RTE`. Default: all, in the order of the paper's table 6."""
    similarity: Literal["cosine", "relatedness"] = "cosine"
    """Similarity of STS-B's pairs. `cosine` is the cosine of the two vectors; nothing is trained. `relatedness`
    is the output of SentEval's regression on [|u-v|, u*v], a softmax over five grades. It is trained on GLUE's
    training set, and a held-out part of that set stops the training. The paper does not say which similarity it
    uses. Its numbers suggest `relatedness`: SimCSE-RoBERTa large has 81.45 on the development set (table 6),
    but 86.70 by cosine on the harder test set (table 5)."""
    mode: Literal["test", "fast"] = "test"
    """SentEval's settings: `test` for papers, `fast` for prototypes."""
    data_dir: FilePath | None = None
    """Directory of GLUE's folders (`CoLA`, `SST-2`, ...), or the directory above `glue`; default:
    `SENTBED_DATA`."""
    limit: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(1))
    )
    """Largest number of training rows per task; they are drawn under `seed`. Default: all (MNLI has 392,702)."""
    development_share: float = 0.1
    """Share of the training rows, between 0 and 1, that is held out: for SST-2, QQP, MNLI and QNLI to choose the
    penalty, for STS-B to stop the regression. The rows are drawn under `seed`."""
    seed: int = 1111
    """Seed of the drawn rows and of the classifier. SentEval's is 1111."""
    check_sizes: bool = True
    """Whether other numbers of rows than in GLUE's files are an error."""
    skip_missing: bool = False
    """Whether tasks with missing files are left out; if false, a missing file is an error. At least one task must
    have its files. Scores name the tasks that were left out, and the report marks a mean over the other tasks as
    incomplete."""

    def setting_problems(self) -> Iterator[str]:
        """Yield problems with the list of tasks and with `development_share`."""
        yield from super().setting_problems()
        if not 0 < self.development_share < 1:
            yield f"`development_share` is {self.development_share!r}; give a share in (0, 1), such as 0.1"

    def task_files(self) -> TaskFiles:
        """Return the files of all tasks of the suite; raises `DataError` if no file of any task is found."""
        return find_files(self.data_dir, self._regression)

    def development_files(self) -> Iterator[Path]:
        """Yield the training sets; scores are on the development sets."""
        for path in self.files():
            if path.name == "train.tsv":
                yield path

    @property
    def _regression(self) -> bool:
        """Whether a regression is trained for STS-B."""
        return self.similarity == "relatedness"

    def prepare_tasks(self) -> Prepared:
        """Read every task and draw its training rows.

        Raises:
            DataError: if data is missing or unreadable, with file and line, or if too few rows of a class are
                left to train on.
        """
        files = self.task_files()
        names_by_folder: dict[str, list[str]] = {}
        for name in self.tasks:
            if name in CLASSIFIED:
                folder = name.removesuffix("-mm").removesuffix("-m")
                names_by_folder.setdefault(folder, []).append(name)

        lists = {}
        item_texts: dict[str, Sequence[tuple[str, ...]]] = {}
        classified = []
        for folder, names in names_by_folder.items():
            tasks = self._read_classified(files, folder, names)
            classified.append(tasks)
            lists[folder] = tasks.probe.texts
            for name, rows in tasks.tests.items():
                item_texts[name] = rows.items

        sts_b = None
        if STS_B in self.tasks:
            sts_b = self._read_sts_b(files)
            lists[STS_B] = Texts(sts_b.texts)
            item_texts[STS_B] = sts_b.parts[-1].texts

        return Prepared(
            lists,
            partial(self._evaluation, classified, sts_b),
            item_texts=lambda: item_texts,
        )

    def _read_classified(
        self,
        files: TaskFiles,
        folder: str,
        names: Sequence[str],
    ) -> _Classified:
        """Read the tasks of one folder, and draw the training and the held-out rows."""
        layout = CLASSIFIED[names[0]]
        is_folded = folder in FOLDED
        all_rows = layout.read(files, "train", self.check_sizes)
        rows = LabelledTexts.of(all_rows)
        train, held_out = self._draw(len(rows), is_folded)
        splits = {"train": rows.take(train)}
        absent = set(range(layout.classes)).difference(splits["train"].labels)
        if absent:
            raise DataError(
                f"no row of `{folder}` to train on has the class {min(absent)}; raise `limit`, or add rows"
            )
        if not is_folded:
            splits["dev"] = rows.take(held_out)

        test = []
        tests = {}
        for name in names:
            of_task = CLASSIFIED[name].read(files, "dev", self.check_sizes)
            tests[name] = LabelledTexts.of(of_task)
            test += of_task

        splits["test"] = LabelledTexts.of(test)
        probe = ProbeTask(folder, splits, layout.classes, "")
        probe.folds(self._classifier("cpu"))
        return _Classified(probe, tests, {name: digest(files[name]) for name in names})

    def _read_sts_b(self, files: TaskFiles) -> _StsB:
        """Read STS-B: the development set and, for a regression, pairs to train on and held-out ones."""
        parts = []
        if self._regression:
            pairs = read_sts_b(files, "train", self.check_sizes)
            for places in self._draw(len(pairs), is_folded=False):
                parts.append(pairs.take(places))

            train, held_out = map(len, parts)
            if min(train, held_out) < 2:
                raise RunError(
                    f"`{STS_B}` has {train} rows to train on and {held_out} to stop by, but two of each are "
                    "needed; raise `limit`, or add rows"
                )

        test = read_sts_b(files, "dev", self.check_sizes)
        require_varied(test.scores, files[STS_B][-1])
        return _StsB([*parts, test], digest(files[STS_B]))

    def _classifier(self, device: str) -> Classifier:
        return Classifier(self.mode, self.seed, device)

    def _evaluation(
        self,
        classified: Sequence[_Classified],
        sts_b: _StsB | None,
        vectors: Vectors,
    ) -> Evaluation:
        """Train and score all tasks; raises `RunError` for zero or non-finite embeddings."""
        scores_by_task: dict[str, Score] = {}
        for tasks in classified:
            scores_by_task |= self._classify(tasks, vectors)
        if sts_b is not None:
            scores_by_task[STS_B] = self._correlate(sts_b, vectors)

        scores = [scores_by_task[task] for task in self.tasks]
        mean = mean_value(scores)
        if set(self.tasks) == set(TASKS):
            scores.append(average(scores, "mean"))
        return Evaluation(tuple(scores), primary=mean)

    def _correlate(self, sts_b: _StsB, vectors: Vectors) -> Score:
        """Score STS-B by the correlation of the similarities of its pairs with their gold scores."""
        text_vectors = TextVectors.of(vectors, STS_B)
        encoded = []
        for pairs in sts_b.parts:
            sides = text_vectors[pairs.first], text_vectors[pairs.second]
            encoded.append(
                EncodedPairs(sides, (pairs.first, pairs.second), pairs.scores)
            )

        test = encoded[-1]
        protocol: dict[str, Any] = {
            "id": self.name,
            "aggregation": "single",
            "split": "dev",
            "similarity": self.similarity,
            "test": len(test.scores),
            "text": "as in the file",
            "data": sts_b.data,
        }
        if self._regression:
            regression = Relatedness(self.seed, vectors.device)
            train, held_out, test = encoded
            progress = part_progress(vectors, STS_B)
            similarities = regression.predict(train, held_out, test, progress)
            protocol |= {
                "features": FORMULAS["senteval"],
                "classifier": regression.describe(),
                "penalty": "none",
                "train": len(train.scores),
                "held_out": len(held_out.scores),
                "limit": self.limit,
                "seed": self.seed,
            }
        else:
            similarities = pairwise_similarities(vectors.similarity, *test.vectors)
        return correlation_score(STS_B, test.scores, similarities, protocol)

    def _classify(self, tasks: _Classified, vectors: Vectors) -> dict[str, Score]:
        """Train one classifier, and score it on the development set of each task."""
        probe = tasks.probe
        classifier = self._classifier(vectors.device)
        progress = part_progress(vectors, probe.name)
        text_vectors = TextVectors.of(vectors, probe.name)
        (outcome,) = probe.probe(text_vectors, [classifier], progress)

        protocol: dict[str, Any] = {
            "id": self.name,
            "aggregation": "single",
            "split": "dev",
            "features": "u",
            "classifier": classifier.describe(),
            "penalty": "cross-validation on train",
            "train": len(probe.splits["train"]),
            "held_out": 0,
            "limit": self.limit,
            "seed": self.seed,
            "text": "as in the file",
        }
        if CLASSIFIED[next(iter(tasks.tests))].pairs:
            protocol["features"] = FORMULAS["infersent"]
        if "dev" in probe.splits:
            protocol["penalty"] = "held-out part of train"
            protocol["held_out"] = len(probe.splits["dev"])

        scores = {}
        start = 0
        for name, rows in tasks.tests.items():
            end = start + len(rows)
            gold, predicted = outcome.gold[start:end], outcome.predicted[start:end]
            details = {"test": len(rows), "data": tasks.hashes[name]}
            scores[name] = _score(name, gold, predicted, protocol | details)
            start = end

        return scores

    def _draw(
        self,
        count: int,
        is_folded: bool,
    ) -> tuple[list[int], list[int]]:
        """Draw the rows to train on, of `count`, and the held-out ones (none if `is_folded`); both ascend."""
        import numpy as np

        order = np.random.default_rng(self.seed).permutation(count)[: self.limit]
        held_out = 0
        if not is_folded:
            held_out = max(1, round(self.development_share * len(order)))

        return np.sort(order[held_out:]).tolist(), np.sort(order[:held_out]).tolist()


def _score(
    name: str,
    gold: NDArray[np.int64],
    predicted: NDArray[np.int64],
    protocol: dict[str, Any],
) -> Score:
    """Return the score of a task's predictions: Matthews correlation for CoLA, accuracy for the other tasks."""
    import numpy as np
    from sklearn.metrics import matthews_corrcoef

    metric = "accuracy"
    right = (gold == predicted).astype(np.float64)
    value, items = 100 * float(right.mean()), Items("mean", right)
    if name == "CoLA":
        metric = "matthews"
        value = 100 * float(matthews_corrcoef(gold, predicted))
        items = Items("matthews", gold.astype(np.float64), predicted.astype(np.float64))

    note = one_class(predicted)
    return Score(
        name,
        metric,
        value,
        protocol,
        items=items,
        note=note,
        degenerate=note,
    )
