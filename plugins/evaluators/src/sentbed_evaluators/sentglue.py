"""SentGLUE: linear classifiers on frozen sentence vectors for the tasks of GLUE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import attrs
from sentbed import FilePath, RunError
from sentbed.protocols import (
    Evaluation,
    Items,
    Prepared,
    Score,
    Texts,
    Vectors,
)
from sentbed_common import pairwise_similarities

from sentbed_evaluators.cosine_correlation import (
    correlation_score,
    nonzero,
    require_varied,
)
from sentbed_evaluators.data_directories import TaskFiles, digest
from sentbed_evaluators.degenerate_scores import one_class
from sentbed_evaluators.glue_files import (
    TASKS,
    Rows,
    find_files,
    read_rows,
)
from sentbed_evaluators.labelled_text_vectors import TextVectors
from sentbed_evaluators.pair_features import FORMULAS
from sentbed_evaluators.probe import Classifier, Grid
from sentbed_evaluators.relatedness import EncodedPairs, Relatedness
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
class _FolderRows:
    """The rows of the tasks in one folder of GLUE. Only MNLI's folder has more than one task."""

    folder: str
    names: Sequence[str]
    """Names of the tasks."""
    parts: Sequence[Rows]
    """Training rows, held-out rows, and then the development set of each task. For STS-B by cosine, only the
    development set."""
    texts: Sequence[str]
    """Texts to encode."""
    hashes: Mapping[str, str]
    """Hash of the files of each task."""
    skipped: int = 0
    """Number of rows of the training file that were left out."""

    @property
    def tests(self) -> Sequence[Rows]:
        """The development sets, on which the tasks are scored."""
        return self.parts[-len(self.names) :]


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
    protocol: Literal["senteval", "logistic"] = "senteval"
    """Training of the classifier. `senteval`: as SentEval trains its classifier in PyTorch. `logistic`:
    L2-regularised logistic regression to convergence, by scikit-learn."""
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
            DataError: if data is missing or unreadable; with file and line.
            RunError: if too few rows are left to train on.
        """
        files = self.task_files()
        tasks_by_folder: dict[str, list[str]] = {}
        for task in self.tasks:
            tasks_by_folder.setdefault(TASKS[task].folder, []).append(task)

        folders = []
        lists = {}
        for names in tasks_by_folder.values():
            folder = self._read(files, names)
            folders.append(folder)
            lists[folder.folder] = Texts(folder.texts)

        return Prepared(
            lists,
            partial(self._evaluation, folders),
            item_texts=partial(_item_texts, folders),
        )

    def _read(self, files: TaskFiles, names: Sequence[str]) -> _FolderRows:
        """Read the tasks of one folder, and draw the training and the held-out rows."""
        task = TASKS[names[0]]
        if not task.classes:
            return self._read_scored(files, names)

        is_folded = names[0] in FOLDED
        all_rows = read_rows(files.root, names[0], "train", self.check_sizes)
        train, held_out = self._draw(all_rows, is_folded)
        parts = [train, held_out]
        for name in names:
            parts.append(read_rows(files.root, name, "dev", self.check_sizes))

        needed = 1
        if is_folded:
            needed = Classifier(self.protocol, self.mode).folds

        for number, label in enumerate(task.classes):
            if (count := train.labels.count(number)) < needed:
                raise RunError(
                    f"`{task.folder}` has {count} rows of class `{label}` to train on, but at least {needed} "
                    f"are needed; raise `limit`, or add rows"
                )

        texts = list(dict.fromkeys(_texts_of(parts)))
        hashes = {name: digest(files[name]) for name in names}
        return _FolderRows(task.folder, names, parts, texts, hashes, all_rows.skipped)

    def _read_scored(self, files: TaskFiles, names: Sequence[str]) -> _FolderRows:
        """Read STS-B: the development set and, for a regression, training rows and held-out rows that stop it."""
        (name,) = names
        parts: list[Rows] = []
        if self._regression:
            train = read_rows(files.root, name, "train", self.check_sizes)
            parts += self._draw(train, is_folded=False)
            if min(map(len, parts)) < 2:
                raise RunError(
                    f"`{name}` has {len(parts[0])} rows to train on and {len(parts[1])} to stop by, but two "
                    f"of each are needed; raise `limit`, or add rows"
                )

        test = read_rows(files.root, name, "dev", self.check_sizes)
        require_varied(test.scores, files[name][-1])
        parts.append(test)
        hashes = {name: digest(files[name])}
        return _FolderRows(TASKS[name].folder, names, parts, _texts_of(parts), hashes)

    def _evaluation(
        self, folders: Sequence[_FolderRows], vectors: Vectors
    ) -> Evaluation:
        """Train and score all tasks; raises `RunError` for zero or non-finite embeddings, or a full disk."""
        scores_by_task: dict[str, Score] = {}
        for folder in folders:
            name = folder.names[0]
            if TASKS[name].classes:
                scores_by_task |= self._classify(folder, vectors)
            else:
                scores_by_task[name] = self._correlate(folder, vectors)

        scores = [scores_by_task[task] for task in self.tasks]
        mean = mean_value(scores)
        if set(self.tasks) == set(TASKS):
            scores.append(average(scores, "mean"))
        return Evaluation(tuple(scores), primary=mean)

    def _correlate(self, folder: _FolderRows, vectors: Vectors) -> Score:
        """Score STS-B by the correlation of the similarities of its pairs with their gold scores."""
        (name,), (test,) = folder.names, folder.tests
        pairs = _scored_pairs(folder.parts, nonzero(vectors, folder.folder))
        protocol: dict[str, Any] = {
            "id": f"{self.name}{Classifier(self.protocol).suffix}",
            "aggregation": "single",
            "split": "dev",
            "similarity": self.similarity,
            "test": len(test),
            "text": "as in the file",
            "data": folder.hashes[name],
        }
        if self._regression:
            regression = Relatedness(self.seed, vectors.device)
            train, held_out, dev = pairs
            similarities = regression.predict(
                train, held_out, dev, part_progress(vectors, name)
            )
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
            similarities = pairwise_similarities(vectors.similarity, *pairs[-1].vectors)
        return correlation_score(name, test.scores, similarities, protocol)

    def _classify(self, folder: _FolderRows, vectors: Vectors) -> dict[str, Score]:
        """Train one classifier for a folder, and score it on the development set of each task in the folder."""
        import numpy as np

        task = TASKS[folder.names[0]]
        is_folded = folder.names[0] in FOLDED
        classifier = Classifier(self.protocol, self.mode, self.seed, vectors.device)
        classes = len(task.classes)
        progress = part_progress(vectors, task.folder)
        train, held_out = folder.parts[:2]
        splits = [(rows.sides, rows.labels) for rows in folder.parts]
        text_vectors = TextVectors.of(vectors, folder.folder)
        examples, rows_of_parts = text_vectors.examples(splits)
        labels = examples.labels
        fitted_on, development, *tests = rows_of_parts
        test = np.concatenate(tests)
        if is_folded:
            folds = classifier.folded(labels, fitted_on, test)
        else:
            folds = classifier.split(labels, fitted_on, development, test)

        grid: Grid = "folded" if is_folded else "split"
        outcome = classifier.probe(examples, classes, folds, grid, progress)

        protocol: dict[str, Any] = {
            "id": f"{self.name}{classifier.suffix}",
            "aggregation": "single",
            "split": "dev",
            "features": "u",
            "classifier": classifier.describe(),
            "penalty": "held-out part of train",
            "train": len(train),
            "held_out": len(held_out),
            "test": 0,
            "limit": self.limit,
            "seed": self.seed,
            "text": "as in the file",
            "data": "",
        }
        if len(task.texts) == 2:
            protocol["features"] = FORMULAS["infersent"]
        if is_folded:
            protocol["penalty"] = "cross-validation on train"

        scores = {}
        start = 0
        for name, rows in zip(folder.names, folder.tests, strict=True):
            end = start + len(rows)
            protocol_of_task = {
                **protocol,
                "test": len(rows),
                "data": folder.hashes[name],
            }
            if task.broken_rows:
                skipped = {"train": folder.skipped, "dev": rows.skipped}
                protocol_of_task["skipped"] = skipped

            gold, predicted = outcome.gold[start:end], outcome.predicted[start:end]
            scores[name] = _score(name, gold, predicted, protocol_of_task)
            start = end

        return scores

    def _draw(self, train: Rows, is_folded: bool) -> tuple[Rows, Rows]:
        """Draw the rows to train on and the held-out rows (none if `is_folded`); both are in the file's order."""
        import numpy as np

        order = np.random.default_rng(self.seed).permutation(len(train))[: self.limit]
        held_out = 0
        if not is_folded:
            held_out = max(1, round(self.development_share * len(order)))

        rows_to_train_on = np.sort(order[held_out:])
        return _take(train, rows_to_train_on), _take(train, np.sort(order[:held_out]))


def _item_texts(folders: Sequence[_FolderRows]) -> dict[str, list[tuple[str, ...]]]:
    """Return, for each task, the texts of each row of its development set."""
    texts = {}
    for folder in folders:
        for name, rows in zip(folder.names, folder.tests, strict=True):
            texts[name] = list(zip(*rows.sides, strict=True))

    return texts


def _scored_pairs(
    parts: Sequence[Rows], vectors: NDArray[np.float32]
) -> list[EncodedPairs]:
    """Return the pairs of each part. In `vectors`, all first sides of a part precede all its second sides."""
    pairs = []
    start = 0
    for rows in parts:
        middle, end = start + len(rows), start + 2 * len(rows)
        first, second = rows.sides
        sides = vectors[start:middle], vectors[middle:end]
        pairs.append(EncodedPairs(sides, (first, second), rows.scores))
        start = end

    return pairs


def _texts_of(parts: Sequence[Rows]) -> list[str]:
    """Return the texts of all parts: for each part all its first sides, then all its second sides."""
    texts: list[str] = []
    for rows in parts:
        for side in rows.sides:
            texts += side

    return texts


def _take(rows: Rows, chosen: NDArray[np.int64]) -> Rows:
    """Return the rows with the indices `chosen`, in their order."""
    indices = chosen.tolist()

    def values_at_indices(column: Sequence[Any]) -> tuple[Any, ...]:
        """Return the chosen values of a column; a column that the task does not have is empty."""
        if not column:
            return ()
        return tuple(column[index] for index in indices)

    return Rows(
        tuple(map(values_at_indices, rows.sides)),
        values_at_indices(rows.labels),
        values_at_indices(rows.scores),
    )


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
