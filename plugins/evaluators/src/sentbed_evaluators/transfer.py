"""SentEval's transfer tasks: classifiers on frozen embeddings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import attrs
from sentbed import DataError, FilePath
from sentbed.protocols import (
    Evaluation,
    Evaluator,
    EvaluatorTraits,
    Items,
    Prepared,
    Score,
    Texts,
    Vectors,
)

from sentbed_evaluators.classifier_training import Classifier, Examples, Outcome
from sentbed_evaluators.cosine_correlation import nonzero
from sentbed_evaluators.degenerate_scores import one_class
from sentbed_evaluators.pair_features import FORMULAS, pair_features
from sentbed_evaluators.task_suites import (
    average,
    classifier_of,
    missing_problems,
    part_progress,
    prepare_present,
    task_problems,
    tasks_read,
)
from sentbed_evaluators.transfer_files import (
    TRANSFER,
    Split,
    find_transfer_root,
    missing_transfer,
    read_transfer,
    transfer_files,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PAPERS = ("MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC")
"""The seven tasks reported in papers, in their order."""


@attrs.frozen
class SentEvalTransfer(Evaluator):
    """Accuracy x 100 of a linear classifier on frozen embeddings, as SentEval trains it.

    MR, CR, SUBJ and MPQA are scored by nested cross-validation; TREC and MRPC pick the penalty by
    cross-validation on their training set and are scored on their test set; SST2 and SST5 have a development
    set. MRPC's features are [|u-v|, u*v], and it also has an `f1`. `dev-accuracy` is the accuracy that the
    choice of the penalty is based on.

    Source: Conneau & Kiela (2018), with the settings of SimCSE's evaluation. `primary` is the mean accuracy;
    with all seven tasks of the papers it is also the score `AVG`.
    """

    name: ClassVar[str] = "senteval-transfer"

    tasks: tuple[str, ...] = PAPERS
    """Tasks in the order of the report, among `MR`, `CR`, `SUBJ`, `MPQA`, `SST2`, `SST5`, `TREC` and `MRPC`.
    Default: the seven of the papers."""
    protocol: Literal["senteval", "logistic"] = "senteval"
    """`senteval`: SentEval's classifier in PyTorch, early stopping included, which all papers here use;
    `logistic`: logistic regression to convergence (scikit-learn), with SentEval's grid of C."""
    mode: Literal["test", "fast"] = "test"
    """`test`, as published: 10 folds, Adam, batches of 64, tenacity 5, an evaluation every 4 epochs;
    `fast`: 5 folds, RMSprop, batches of 128, tenacity 3, an evaluation every 2 epochs."""
    part: Literal["all", "train", "held-out"] = "all"
    """`all`, as published; `train`: the accuracy of the best penalty without any test sentence, for a search
    or a validation; `held-out`: the accuracy on what `train` does not see. Of MR, CR, SUBJ and MPQA, which
    have no split, the first fold is held out, and `train` cross-validates on the others. TREC and MRPC are
    cross-validated on their training set, and SST2 and SST5 scored on their development set."""
    seed: int = 1111
    """Seed of folds, initial weights and order of the batches; SentEval's is 1111."""
    data_dir: FilePath | None = None
    """SentEval's `downstream` directory or one above it; default: `SENTBED_DATA`."""
    check_sizes: bool = True
    """Whether to refuse a task whose files have other numbers of examples than published."""
    skip_missing: bool = False
    """Whether to leave tasks out whose files are missing, instead of refusing to run; at least one must be
    there. Scores name the tasks that were left out, and an average over the rest is marked as one over a part
    of the row."""

    @property
    def traits(self) -> EvaluatorTraits:
        """Whether no test sentence is used."""
        return EvaluatorTraits(
            cites=("conneau2018senteval",), development=self.part == "train"
        )

    def check(self) -> Iterator[str]:
        """Yield unknown or repeated tasks and missing data."""
        yield from task_problems(self.tasks, TRANSFER, self.name)
        yield from missing_problems(self._missing, self.tasks, self.skip_missing)

    def _missing(self) -> dict[str, str]:
        """Return the message of each task without data; raises `DataError` if there is none at all."""
        return missing_tasks(find_transfer_root(self.data_dir), self.tasks)

    def prepare(self) -> Prepared:
        """Read every task; raises `DataError` with file and line."""
        for problem in self.check():
            raise DataError(problem)
        if self.skip_missing and (missing := self._missing()):
            return prepare_present(self, missing)
        tasks = read_tasks(self.tasks, self.data_dir, self.check_sizes)
        if self.part != "all":
            classifier = Classifier(self.protocol, self.mode, self.seed)
            tasks = [part_of(task, self.part, classifier) for task in tasks]
        return Prepared(
            transfer_lists(tasks),
            partial(self._score, tasks),
            item_texts=lambda: {task.name: task.item_texts for task in tasks},
        )

    def files(self) -> Iterator[Path]:
        """Yield the files of the tasks that are not skipped."""
        root = find_transfer_root(self.data_dir)
        for task in tasks_read(self, self._missing):
            if task in TRANSFER:
                yield from transfer_files(root, task)

    def _score(self, tasks: Sequence[TransferTask], vectors: Vectors) -> Evaluation:
        """Train the classifiers of every task and score them.

        Raises `RunError`, with the sentence, if an embedding is not finite or zero.
        """
        classifier = classifier_of(vectors, self.protocol, self.mode, self.seed)
        scores = list(transfer_scores(vectors, tasks, classifier))
        main = [score for score in scores if score.metric == "accuracy"]
        if self.part == "all" and set(PAPERS) <= set(self.tasks):
            scores.append(
                average([score for score in main if score.task in PAPERS], "accuracy")
            )
        return Evaluation(
            tuple(scores), primary=sum(score.value for score in main) / len(main)
        )


def missing_tasks(root: Path, tasks: Sequence[str]) -> dict[str, str]:
    """Return the message of each task without data."""
    messages = {}
    for task in tasks:
        if task in TRANSFER and (message := missing_transfer(root, task)):
            messages[task] = message
    return messages


@attrs.frozen(eq=False)
class TransferTask:
    """The data of a task."""

    name: str
    splits: Mapping[str, Split]
    data: str
    """Hash of its files."""
    part: str = "all"
    """Part of the task in `splits`; see `SentEvalTransfer.part`."""

    @property
    def scored_on(self) -> str:
        """Name of the split whose examples are scored: all of those that are cross-validated."""
        for split in ("all", "test", "dev"):
            if split in self.splits:
                return split
        return "train"

    @property
    def item_texts(self) -> list[tuple[str, ...]]:
        """The sentences of each example that is scored."""
        return list(zip(*self.splits[self.scored_on].sentences, strict=True))


def read_tasks(
    tasks: Sequence[str], data_dir: str | None, check_sizes: bool = True
) -> list[TransferTask]:
    """Read each task; raises `DataError` with file and line."""
    root = find_transfer_root(data_dir)
    return [
        TransferTask(task, *read_transfer(root, task, check_sizes)) for task in tasks
    ]


def part_of(
    task: TransferTask, part: Literal["train", "held-out"], classifier: Classifier
) -> TransferTask:
    """Return the part of a task: without its test examples, or with those that `train` does not see."""
    splits = dict(task.splits)
    if "all" in splits:
        whole = splits.pop("all")
        train, test = classifier.first_fold(whole.labels)
        splits = {"train": _rows_of(whole, train), "test": _rows_of(whole, test)}
    if part == "train":
        del splits["test"]
    return attrs.evolve(task, splits=splits, part=part)


def _rows_of(split: Split, rows: Sequence[int]) -> Split:
    return Split(
        tuple(tuple(side[row] for row in rows) for side in split.sentences),
        tuple(split.labels[row] for row in rows),
    )


def transfer_lists(tasks: Sequence[TransferTask]) -> dict[str, Texts]:
    """Return the texts to encode: one list per split."""
    lists = {}
    for task in tasks:
        for name, split in task.splits.items():
            lists[f"{task.name} {name}"] = Texts(
                list(chain.from_iterable(split.sentences))
            )
    return lists


def transfer_scores(
    vectors: Vectors, tasks: Sequence[TransferTask], classifier: Classifier
) -> Iterator[Score]:
    """Yield the scores of each task: `accuracy`, `f1` for MRPC, `dev-accuracy`.

    Raises `RunError` if an embedding is not finite or zero.
    """
    for read in tasks:
        task, splits, data = read.name, read.splits, read.data
        examples = {
            name: examples_of(vectors, f"{task} {name}", split)
            for name, split in splits.items()
        }
        progress = part_progress(vectors, task)
        classes = TRANSFER[task].classes
        test = read.scored_on
        if test == "all":
            chosen_on = "inner cross-validation"
            outcome = classifier.nested(examples["all"], classes, progress)
        elif test == "dev":
            chosen_on = "dev"
            outcome = classifier.split(
                examples["train"], examples["dev"], examples["dev"], classes, progress
            )
        elif test == "train":
            chosen_on = "cross-validation on train"
            outcome = classifier.chosen(examples["train"], classes, progress)
        elif "dev" in examples:
            chosen_on = "dev"
            outcome = classifier.split(
                examples["train"], examples["dev"], examples["test"], classes, progress
            )
        else:
            chosen_on = "cross-validation on train"
            outcome = classifier.folded(
                examples["train"], examples["test"], classes, progress
            )
        protocol_id = f"senteval-transfer{classifier.suffix}"
        if read.part != "all":
            protocol_id += f"-{read.part}"
        scored_on = {"all": "nested cross-validation", "train": chosen_on}.get(
            test, test
        )
        protocol: dict[str, Any] = {
            "id": protocol_id,
            "classifier": classifier.describe(),
            "features": FORMULAS["senteval"] if TRANSFER[task].pairs else "u",
            "split": scored_on,
            "examples": {name: len(split) for name, split in splits.items()},
            "text": "as in the file, white space as one space",
            "data": data,
        }
        yield from _scores(task, examples[test], outcome, protocol)
        chosen = {**protocol, "split": chosen_on}
        degenerate = one_class(outcome.predicted, outcome.folds)
        yield Score(
            task, "dev-accuracy", outcome.development, chosen, degenerate=degenerate
        )


def examples_of(vectors: Vectors, name: str, split: Split) -> Examples:
    """Return the examples of a split: vectors, or the features of pairs."""
    import numpy as np

    features = nonzero(vectors, name)
    if len(split.sentences) == 2:
        features = pair_features(
            features[: len(split)], features[len(split) :], "senteval"
        )
    return Examples(features, np.array(split.labels))


def _scores(
    task: str, test: Examples, outcome: Outcome, protocol: dict[str, Any]
) -> Iterator[Score]:
    import numpy as np

    right = (outcome.predicted == test.labels).astype(np.float64)
    items = Items("mean", right, groups=outcome.folds)
    degenerate = one_class(outcome.predicted, outcome.folds)
    yield Score(
        task, "accuracy", outcome.accuracy, protocol, items=items, degenerate=degenerate
    )
    if TRANSFER[task].pairs:
        gold, predicted = (
            test.labels.astype(np.float64),
            outcome.predicted.astype(np.float64),
        )
        note = "" if predicted.any() else "the classifier found no positive pair"
        items = Items("f1", gold, predicted)
        yield Score(
            task,
            "f1",
            _f1(gold, predicted),
            protocol,
            items=items,
            note=note,
            degenerate=degenerate,
        )


def _f1(gold: NDArray[np.float64], predicted: NDArray[np.float64]) -> float:
    from sklearn.metrics import f1_score

    return round(100 * float(f1_score(gold, predicted, zero_division=0)), 2)
