"""SentEval's transfer tasks: a classifier on top of frozen embeddings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import attrs
from sentbed import DataError, FilePath
from sentbed.protocols import Evaluation, Items, Score, TextEncoder

from sentbed_evaluators.classifier import Classifier, Examples, Outcome
from sentbed_evaluators.features import FORMULAS, pair_features
from sentbed_evaluators.similarity import embed_nonzero
from sentbed_evaluators.tasks import average, classifier_of, part_progress, task_problems
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
"""The seven tasks that the papers print, in their order."""


@attrs.frozen
class SentEvalTransfer:
    """Accuracy x 100 of a linear classifier on frozen embeddings, as SentEval trains it.

    MR, CR, SUBJ and MPQA are scored by nested cross-validation; TREC and MRPC pick the penalty by
    cross-validation on their training set and are scored on their test set; SST2 and SST5 have a development
    set. MRPC's features are [|u-v|, u*v], and it has an `f1` beside its accuracy. `dev-accuracy` is the one
    that chose the penalty.

    Source: Conneau & Kiela (2018), with the settings of SimCSE's evaluation. `primary` is the mean accuracy;
    with all seven tasks of the papers it is also the score `AVG`.
    """

    name: ClassVar[str] = "senteval-transfer"
    cites: ClassVar[tuple[str, ...]] = ("conneau2018senteval",)
    development: ClassVar[bool] = False

    tasks: tuple[str, ...] = PAPERS
    """Of `MR`, `CR`, `SUBJ`, `MPQA`, `SST2`, `SST5`, `TREC`, `MRPC`, in the order of the report. Default: the
    seven of the papers."""
    protocol: Literal["senteval", "logistic"] = "senteval"
    """`senteval`: SentEval's classifier in PyTorch, early stopping included, which all papers here use;
    `logistic`: logistic regression to convergence (scikit-learn), with SentEval's grid of C."""
    mode: Literal["test", "fast"] = "test"
    """`test`, as published: 10 folds, Adam, batches of 64, tenacity 5, a look every 4 epochs; `fast`: 5
    folds, RMSprop, batches of 128, tenacity 3, a look every 2 epochs."""
    seed: int = 1111
    """Of folds, initial weights and order of the batches; SentEval's is 1111."""
    data_dir: FilePath | None = None
    """SentEval's `downstream` directory or one above it; default: `SENTBED_DATA`."""
    check_sizes: bool = True
    """Refuse a task whose files have not as many examples as published."""

    def check(self) -> Iterator[str]:
        """Yield unknown or repeated tasks, and data that is not there."""
        yield from task_problems(self.tasks, TRANSFER, self.name)
        yield from transfer_problems(self.tasks, self.data_dir)

    def read(self) -> object:
        """Read every task; raises `DataError` that names file and line."""
        for problem in self.check():
            raise DataError(problem)
        return read_tasks(self.tasks, self.data_dir, self.check_sizes)

    def files(self) -> Iterator[Path]:
        """Yield the files of the tasks."""
        root = find_transfer_root(self.data_dir)
        for task in self.tasks:
            if task in TRANSFER:
                yield from transfer_files(root, task)

    def evaluate(self, encoder: TextEncoder) -> Evaluation:
        """Encode every task, train its classifiers and score them.

        Raises:
            DataError: where the files cannot be read or do not have the published sizes.
            RunError: where an embedding is not finite or zero; names the sentence.
        """
        for problem in self.check():
            raise DataError(problem)
        classifier = classifier_of(encoder, self.protocol, self.mode, self.seed)
        scores = list(transfer_scores(encoder, self.tasks, self.data_dir, classifier, self.check_sizes))
        main = [score for score in scores if score.metric == "accuracy"]
        if set(PAPERS) <= set(self.tasks):
            scores.append(average([score for score in main if score.task in PAPERS], "accuracy"))
        return Evaluation(tuple(scores), primary=sum(score.value for score in main) / len(main))


def transfer_problems(tasks: Sequence[str], data_dir: str | None) -> Iterator[str]:
    """Yield the data of these tasks that is not there."""
    try:
        root = find_transfer_root(data_dir)
    except DataError as error:
        yield str(error)
        return
    for task in dict.fromkeys(tasks):
        if task in TRANSFER and (message := missing_transfer(root, task)):
            yield message


def read_tasks(
    tasks: Sequence[str], data_dir: str | None, check_sizes: bool = True
) -> list[tuple[str, dict[str, Split], str]]:
    """Return name, splits and hash of each task; raises `DataError` that names file and line."""
    root = find_transfer_root(data_dir)
    return [(task, *read_transfer(root, task, check_sizes)) for task in tasks]


def transfer_scores(
    encoder: TextEncoder,
    tasks: Sequence[str],
    data_dir: str | None,
    classifier: Classifier,
    check_sizes: bool = True,
) -> Iterator[Score]:
    """Yield the scores of each task: `accuracy`, `f1` for MRPC, `dev-accuracy`.

    All files are read before the first sentence is encoded. Raises what `SentEvalTransfer.evaluate` does.
    """
    for task, splits, data in read_tasks(tasks, data_dir, check_sizes):
        examples = {name: examples_of(encoder, split) for name, split in splits.items()}
        told = part_progress(encoder, task)
        classes = TRANSFER[task].classes
        if "all" in examples:
            test, chosen_on = "all", "inner cross-validation"
            outcome = classifier.nested(examples["all"], classes, told)
        elif "dev" in examples:
            test, chosen_on = "test", "dev"
            outcome = classifier.split(examples["train"], examples["dev"], examples["test"], classes, told)
        else:
            test, chosen_on = "test", "cross-validation on train"
            outcome = classifier.folded(examples["train"], examples["test"], classes, told)
        protocol: dict[str, Any] = {
            "id": f"senteval-transfer{classifier.suffix}",
            "classifier": classifier.describe(),
            "features": FORMULAS["senteval"] if TRANSFER[task].pairs else "u",
            "split": "nested cross-validation" if test == "all" else test,
            "examples": {name: len(split) for name, split in splits.items()},
            "text": "as in the file, white space as one space",
            "data": data,
        }
        yield from _scores(task, examples[test], outcome, protocol)
        yield Score(task, "dev-accuracy", outcome.development, {**protocol, "split": chosen_on})


def examples_of(encoder: TextEncoder, split: Split) -> Examples:
    """Encode a split: vectors, or the features of pairs."""
    import numpy as np

    vectors = embed_nonzero(encoder, [text for side in split.sentences for text in side])
    if len(split.sentences) == 2:
        vectors = pair_features(vectors[: len(split)], vectors[len(split) :], "senteval")
    return Examples(vectors, np.array(split.labels))


def _scores(task: str, test: Examples, outcome: Outcome, protocol: dict[str, Any]) -> Iterator[Score]:
    import numpy as np

    right = (outcome.predicted == test.labels).astype(np.float64)
    yield Score(
        task, "accuracy", outcome.accuracy, protocol, items=Items("mean", right, groups=outcome.folds)
    )
    if TRANSFER[task].pairs:
        gold, found = test.labels.astype(np.float64), outcome.predicted.astype(np.float64)
        note = "" if found.any() else "the classifier found no positive pair"
        yield Score(task, "f1", _f1(gold, found), protocol, items=Items("f1", gold, found), note=note)


def _f1(gold: NDArray[np.float64], found: NDArray[np.float64]) -> float:
    from sklearn.metrics import f1_score

    return round(100 * float(f1_score(gold, found, zero_division=0)), 2)
