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

from sentbed_evaluators.classifier_training import (
    Classifier,
    Examples,
    Outcome,
    Progress,
)
from sentbed_evaluators.cosine_correlation import nonzero
from sentbed_evaluators.data_directories import TaskFiles
from sentbed_evaluators.degenerate_scores import one_class
from sentbed_evaluators.pair_features import FORMULAS, pair_features
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
        scores = list(transfer_scores(vectors, tasks, classifier))
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
    splits = dict(task.splits)
    if "all" in splits:
        whole = splits.pop("all")
        train, test = classifier.first_fold(whole.labels)
        splits = {"train": _rows_of(whole, train), "test": _rows_of(whole, test)}
    if part == "train":
        del splits["test"]
    return attrs.evolve(task, splits=splits, part=part)


def _rows_of(split: Split, rows: Sequence[int]) -> Split:
    """Return the given rows of a split, as a split."""
    sentences = []
    for side in split.sentences:
        sentences.append(tuple(side[row] for row in rows))
    return Split(tuple(sentences), tuple(split.labels[row] for row in rows))


def transfer_lists(tasks: Sequence[TransferTask]) -> dict[str, Texts]:
    """Return the texts to encode, as a list `TASK SPLIT` for each split of each task."""
    lists = {}
    for task in tasks:
        for name, split in task.splits.items():
            texts = list(chain.from_iterable(split.sentences))
            lists[f"{task.name} {name}"] = Texts(texts)
    return lists


def transfer_scores(
    vectors: Vectors,
    tasks: Sequence[TransferTask],
    classifier: Classifier,
) -> Iterator[Score]:
    """Yield the scores of each task: `accuracy`, then for MRPC `f1`, then `dev-accuracy`.

    Raises `RunError` if an embedding is zero or not finite.
    """
    for task in tasks:
        examples = {}
        for name, split in task.splits.items():
            examples[name] = examples_of(vectors, f"{task.name} {name}", split)
        progress = part_progress(vectors, task.name)
        outcome, chosen_on = _trained(task, examples, classifier, progress)
        scored_on = task.scored_on
        descriptions = {"all": "nested cross-validation", "train": chosen_on}
        protocol: dict[str, Any] = {
            "id": f"senteval-transfer{classifier.suffix}",
            "classifier": classifier.describe(),
            "features": "u",
            "split": descriptions.get(scored_on, scored_on),
            "examples": {name: len(rows) for name, rows in examples.items()},
            "text": "as in the file, white space as one space",
            "data": task.data,
        }
        if task.part != "all":
            protocol["id"] += f"-{task.part}"
        if TRANSFER[task.name].pairs:
            protocol["features"] = FORMULAS["senteval"]
        yield from _scores(task.name, examples[scored_on], outcome, protocol)
        yield Score(
            task.name,
            "dev-accuracy",
            outcome.development,
            {**protocol, "split": chosen_on},
            degenerate=one_class(outcome.predicted, outcome.folds),
        )


def _trained(
    task: TransferTask,
    examples: Mapping[str, Examples],
    classifier: Classifier,
    progress: Progress,
) -> tuple[Outcome, str]:
    """Train the classifiers of a task; return the outcome, and a description of how the penalty was chosen."""
    layout = TRANSFER[task.name]
    classes = layout.classes
    if "all" in examples:
        outcome = classifier.nested(examples["all"], classes, progress)
        return outcome, "inner cross-validation"
    train, test = examples["train"], examples[task.scored_on]
    if "dev" in examples:
        outcome = classifier.split(train, examples["dev"], test, classes, progress)
        return outcome, "dev"
    grid: Literal["nested", "folded"] = "folded"
    if "all" in layout.files:
        # The task has been cut into the first outer fold of the nested cross-validation.
        grid = "nested"
    if "test" in examples:
        outcome = classifier.folded(train, test, classes, progress, grid)
    else:
        outcome = classifier.chosen(train, classes, progress, grid)
    return outcome, "cross-validation on train"


def examples_of(
    vectors: Vectors,
    name: str,
    split: Split,
) -> Examples:
    """Return the examples of a split. Their features are vectors of sentences or, for pairs, pair features."""
    import numpy as np

    features = nonzero(vectors, name)
    if len(split.sentences) == 2:
        count = len(split)
        features = pair_features(features[:count], features[count:], "senteval")
    return Examples(features, np.array(split.labels))


def _scores(
    task: str,
    test: Examples,
    outcome: Outcome,
    protocol: dict[str, Any],
) -> Iterator[Score]:
    """Yield the accuracy and, for a task of pairs, F1 x 100."""
    import numpy as np

    score = accuracy(task, outcome, test.labels, protocol)
    yield score
    if not TRANSFER[task].pairs:
        return

    from sklearn.metrics import f1_score

    gold = test.labels.astype(np.float64)
    predicted = outcome.predicted.astype(np.float64)
    f1 = float(f1_score(gold, predicted, zero_division=0))
    note = ""
    if not predicted.any():
        note = "the classifier predicts no positive pair"
    yield attrs.evolve(
        score,
        metric="f1",
        value=round(100 * f1, 2),
        items=Items("f1", gold, predicted),
        note=note,
    )
