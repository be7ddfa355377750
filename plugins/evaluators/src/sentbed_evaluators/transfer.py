"""SentEval's transfer tasks: classifiers on frozen embeddings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal

import attrs
from sentbed import FilePath
from sentbed.protocols import (
    Evaluation,
    Items,
    Prepared,
    Score,
    Texts,
    Vectors,
)

from sentbed_evaluators.classifier_dataclasses import Examples
from sentbed_evaluators.cosine_correlation import nonzero
from sentbed_evaluators.data_directories import TaskFiles
from sentbed_evaluators.labelled_text_vectors import consecutive_rows
from sentbed_evaluators.pair_features import FORMULAS, pair_features
from sentbed_evaluators.probe import Classifier, Fold, Grid, Outcome, Progress
from sentbed_evaluators.task_suites import (
    FileSuite,
    accuracy,
    average,
    mean_value,
    part_progress,
)
from sentbed_evaluators.transfer_files import (
    TRANSFER,
    Split,
    find_files,
    read_transfer,
)

PAPERS = ("MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC")
"""The seven tasks that papers report, in the order in which papers print them."""


@attrs.frozen
class SentEvalTransfer(FileSuite):
    """Accuracy x 100 of a linear classifier on frozen embeddings, as SentEval trains it.

    MR, CR, SUBJ and MPQA are scored by nested cross-validation. TREC and MRPC are scored on their test set, and
    cross-validation on their training set chooses the penalty. SST2 and SST5 are scored on their test set, and
    their development set chooses the penalty. MRPC's features are [|u-v|, u*v], and it also has the score `f1`.
    `dev-accuracy` is the accuracy by which the penalty was chosen.

    `primary` is the mean accuracy over the tasks. If all seven tasks of the papers ran on all examples
    (`part = "all"`), their mean is the score `AVG`.

    Source: Conneau & Kiela (2018), with the settings of SimCSE's evaluation.
    """

    name: ClassVar[str] = "senteval-transfer"
    choices = TRANSFER

    tasks: tuple[str, ...] = PAPERS
    """Tasks in the order of the report, among `MR`, `CR`, `SUBJ`, `MPQA`, `SST2`, `SST5`, `TREC` and `MRPC`.
    Default: the seven tasks of the papers."""
    protocol: Literal["senteval", "logistic"] = "senteval"
    """`senteval` is SentEval's classifier in PyTorch with its early stopping, as in the published scores.
    `logistic` is logistic regression to convergence, by scikit-learn, with the values of C that SentEval
    tries."""
    mode: Literal["test", "fast"] = "test"
    """`test` is the published setting: 10 folds, Adam, batches of 64, tenacity 5, an evaluation every 4 epochs.
    `fast`: 5 folds, RMSprop, batches of 128, tenacity 3, an evaluation every 2 epochs."""
    part: Literal["all", "train", "held-out"] = "all"
    """The examples to use. `all` is the published setting. `train` uses no test sentence, for a search or a
    validation: its score is the accuracy of the chosen penalty in a cross-validation on the training set or, for
    SST2 and SST5, on the development set. `held-out` scores on the examples that `train` leaves out. MR, CR, SUBJ
    and MPQA have no test set; their first fold is held out, and `train` uses the other folds."""
    seed: int = 1111
    """Seed of folds, initial weights and order of the batches; SentEval's is 1111."""
    data_dir: FilePath | None = None
    """SentEval's `downstream` directory or one above it; default: `SENTBED_DATA`."""
    check_sizes: bool = True
    """Whether other numbers of examples than published are an error."""
    skip_missing: bool = False
    """Whether tasks with missing files are left out; if false, a missing file is an error. At least one task must
    have its files. Scores name the tasks that were left out, and the report marks a mean over the other tasks as
    incomplete."""

    cites = ("conneau2018senteval",)

    @property
    def development(self) -> bool:
        """Whether no test sentence is used."""
        return self.part == "train"

    def task_files(self) -> TaskFiles:
        """Return the files of all tasks of the suite; raises `DataError` if no file of any task is found."""
        return find_files(self.data_dir)

    def development_files(self) -> Iterator[Path]:
        """Return the training and development sets of tasks that have a test set."""
        return development_files(self.tasks, self.data_dir)

    def prepare_tasks(self) -> Prepared:
        """Read the data of every task; raises `DataError`, with file and line, if it is missing or malformed."""
        tasks = read_tasks(self.tasks, self.data_dir, self.check_sizes)
        if self.part != "all":
            classifier = Classifier(self.protocol, self.mode, self.seed)
            tasks = [part_of(task, self.part, classifier) for task in tasks]
        return Prepared(
            transfer_lists(tasks),
            partial(self._score, tasks),
            item_texts=lambda: {task.name: task.item_texts for task in tasks},
        )

    def _score(self, tasks: Sequence[TransferTask], vectors: Vectors) -> Evaluation:
        """Train and score the classifiers of every task.

        Raises `RunError`, with the sentence, if an embedding is zero or not finite.
        """
        classifier = Classifier(self.protocol, self.mode, self.seed, vectors.device)
        scores: list[Score] = []
        for task in tasks:
            examples = examples_of(vectors, task)
            progress = part_progress(vectors, task.name)
            scores += transfer_scores(task, examples, classifier, progress)
        main = {score.task: score for score in scores if score.metric == "accuracy"}
        if self.part == "all" and main.keys() >= set(PAPERS):
            of_papers = [score for task, score in main.items() if task in PAPERS]
            scores.append(average(of_papers, "accuracy"))
        return Evaluation(tuple(scores), primary=mean_value(list(main.values())))


@attrs.frozen(eq=False)
class TransferTask:
    """The examples of a task, by split."""

    name: str
    splits: Mapping[str, Split]
    data: str
    """Hash of the task's files."""
    part: str = "all"
    """Which part of the task `splits` has; see `SentEvalTransfer.part`."""

    @property
    def scored_on(self) -> str:
        """Name of the split whose examples are scored; a cross-validation scores each of them once."""
        for split in ("all", "test", "dev"):
            if split in self.splits:
                return split
        return "train"

    @property
    def item_texts(self) -> list[tuple[str, ...]]:
        """The sentences of each example that is scored."""
        return list(zip(*self.splits[self.scored_on].sentences, strict=True))


def development_files(tasks: Iterable[str], data_dir: str | None) -> Iterator[Path]:
    """Yield the training and development sets of tasks that have a test set."""
    root = find_files(data_dir).root
    for task in tasks:
        layout = TRANSFER[task]
        for split in ("train", "dev"):
            for name in layout.files.get(split, ()):
                yield root / layout.folder / name


def read_tasks(
    tasks: Sequence[str],
    data_dir: str | None,
    check_sizes: bool = True,
) -> list[TransferTask]:
    """Read each task; raises `DataError`, with file and line, if data is missing or malformed."""
    files = find_files(data_dir)
    transfer_tasks = []
    for task in tasks:
        splits, data = read_transfer(files, task, check_sizes)
        transfer_tasks.append(TransferTask(task, splits, data))
    return transfer_tasks


def part_of(
    task: TransferTask,
    part: Literal["train", "held-out"],
    classifier: Classifier,
) -> TransferTask:
    """Return a task for `SentEvalTransfer.part`: `train` has no test examples, `held-out` has training and test.

    A task without a test set is split first: the classifier's first outer fold becomes its test set.
    """
    import numpy as np

    splits = dict(task.splits)
    if "all" in splits:
        whole = splits.pop("all")
        labels = np.array(whole.labels)
        train, test = classifier.cut(labels, np.arange(len(labels)))[0]
        splits["train"] = _rows_of(whole, train)
        splits["test"] = _rows_of(whole, test)
    if part == "train":
        del splits["test"]
    return attrs.evolve(task, splits=splits, part=part)


def _rows_of(split: Split, rows: Iterable[int]) -> Split:
    """Return the given rows of a split, as a split."""
    places = list(rows)
    sentences = []
    for side in split.sentences:
        sentences.append(tuple(side[row] for row in places))
    return Split(tuple(sentences), tuple(split.labels[row] for row in places))


def transfer_lists(tasks: Sequence[TransferTask]) -> dict[str, Texts]:
    """Return the texts to encode, as a list `TASK SPLIT` for each split of each task."""
    lists = {}
    for task in tasks:
        for name, split in task.splits.items():
            texts = list(chain.from_iterable(split.sentences))
            lists[f"{task.name} {name}"] = Texts(texts)
    return lists


def transfer_scores(
    task: TransferTask,
    examples: Examples,
    classifier: Classifier,
    progress: Progress,
) -> Iterator[Score]:
    """Yield the scores of a task: `accuracy`, then for MRPC `f1`, then `dev-accuracy`."""
    folds, grid, chosen_on = folds_of(task, examples, classifier)
    layout = TRANSFER[task.name]
    outcome = classifier.probe(examples, layout.classes, folds, grid, progress)

    scored_on = task.scored_on
    descriptions = {"all": "nested cross-validation", "train": chosen_on}
    protocol: dict[str, Any] = {
        "id": f"senteval-transfer{classifier.suffix}",
        "classifier": classifier.describe(),
        "features": "u",
        "split": descriptions.get(scored_on, scored_on),
        "examples": {name: len(split) for name, split in task.splits.items()},
        "text": "as in the file, white space as one space",
        "data": task.data,
    }
    if task.part != "all":
        protocol["id"] += f"-{task.part}"
    if layout.pairs:
        protocol["features"] = FORMULAS["senteval"]
    score = accuracy(task.name, outcome, protocol)
    yield score
    if layout.pairs:
        yield _f1(score, outcome)
    yield Score(
        task.name,
        "dev-accuracy",
        outcome.development,
        {**protocol, "split": chosen_on},
        degenerate=score.degenerate,
    )


def folds_of(
    task: TransferTask,
    examples: Examples,
    classifier: Classifier,
) -> tuple[list[Fold], Grid, str]:
    """Return the folds of a task, the grid of its penalties, and a description of how the penalty is chosen."""
    labels = examples.labels
    parts = consecutive_rows([len(split) for split in task.splits.values()])
    rows = dict(zip(task.splits, parts, strict=True))
    if "all" in rows:
        return classifier.nested(labels), "nested", "inner cross-validation"
    if "dev" in rows:
        test = rows[task.scored_on]
        return (
            classifier.split(labels, rows["train"], rows["dev"], test),
            "split",
            "dev",
        )
    grid: Grid = "folded"
    if "all" in TRANSFER[task.name].files:
        # The task has been cut into the first outer fold of the nested cross-validation.
        grid = "nested"
    folds = classifier.folded(labels, rows["train"], rows.get("test"))
    return folds, grid, "cross-validation on train"


def examples_of(vectors: Vectors, task: TransferTask) -> Examples:
    """Return the examples of all splits. Their features are vectors of sentences or, for pairs, pair features."""
    import numpy as np

    features = []
    labels: list[int] = []
    for name, split in task.splits.items():
        of_split = nonzero(vectors, f"{task.name} {name}")
        if len(split.sentences) == 2:
            first, second = of_split[: len(split)], of_split[len(split) :]
            of_split = pair_features(first, second, "senteval")
        features.append(of_split)
        labels += split.labels
    return Examples(np.concatenate(features), np.array(labels))


def _f1(accuracy: Score, outcome: Outcome) -> Score:
    """Return F1 x 100 of the predictions of pairs."""
    import numpy as np
    from sklearn.metrics import f1_score

    gold = outcome.gold.astype(np.float64)
    predicted = outcome.predicted.astype(np.float64)
    f1 = float(f1_score(gold, predicted, zero_division=0))
    note = ""
    if not predicted.any():
        note = "the classifier predicts no positive pair"
    return attrs.evolve(
        accuracy,
        metric="f1",
        value=round(100 * f1, 2),
        items=Items("f1", gold, predicted),
        note=note,
    )
