"""SentEval's transfer tasks: classifiers on frozen embeddings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import attrs
from sentbed import FilePath
from sentbed.protocols import (
    Evaluation,
    Items,
    Prepared,
    Score,
    Vectors,
)

from sentbed_evaluators.data_directories import TaskFiles
from sentbed_evaluators.pair_features import FORMULAS
from sentbed_evaluators.probe import Classifier, Outcome
from sentbed_evaluators.probe_task import ProbeTask, TextVectors
from sentbed_evaluators.task_suites import (
    FileSuite,
    accuracy,
    average,
    mean_value,
    part_progress,
)
from sentbed_evaluators.transfer_files import TRANSFER, find_files, read_transfer

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
        classifier = Classifier(self.mode, self.seed)
        tasks = read_tasks(self.tasks, self.data_dir, self.check_sizes)
        if self.part != "all":
            tasks = [part_of(task, self.part, classifier) for task in tasks]
        for task in tasks:
            task.folds(classifier)
        lists = {task.name: task.texts for task in tasks}
        return Prepared(
            lists,
            partial(self._score, tasks),
            item_texts=lambda: {task.name: task.item_texts for task in tasks},
        )

    def _score(self, tasks: Sequence[ProbeTask], vectors: Vectors) -> Evaluation:
        """Train and score the classifiers of every task.

        Raises `RunError`, with the sentence, if an embedding is zero or not finite.
        """
        classifier = Classifier(self.mode, self.seed, vectors.device)
        scores: list[Score] = []
        for task in tasks:
            progress = part_progress(vectors, task.name)
            text_vectors = TextVectors.of(vectors, task.name)
            (outcome,) = task.probe(text_vectors, [classifier], progress)
            scores += self._scores_of(task, outcome, classifier)
        main = {score.task: score for score in scores if score.metric == "accuracy"}
        if self.part == "all" and main.keys() >= set(PAPERS):
            of_papers = [score for task, score in main.items() if task in PAPERS]
            scores.append(average(of_papers, "accuracy"))
        return Evaluation(tuple(scores), primary=mean_value(list(main.values())))

    def _scores_of(
        self,
        task: ProbeTask,
        outcome: Outcome,
        classifier: Classifier,
    ) -> Iterator[Score]:
        """Yield the scores of a task: `accuracy`, then for MRPC `f1`, then `dev-accuracy`."""
        protocol = protocol_of(task, classifier)
        if self.part != "all":
            protocol["id"] += f"-{self.part}"
        score = accuracy(task.name, outcome, protocol)
        yield score
        if TRANSFER[task.name].pairs:
            yield _f1(score, outcome)
        yield Score(
            task.name,
            "dev-accuracy",
            outcome.development,
            {**protocol, "split": chosen_on(task)},
            degenerate=score.degenerate,
        )


def development_files(tasks: Iterable[str], data_dir: str | None) -> Iterator[Path]:
    """Yield the training and development sets of tasks that have a test set."""
    root = find_files(data_dir).root
    for task in tasks:
        for split in ("train", "dev"):
            for path in TRANSFER[task].files.get(split, ()):
                yield root / path


def read_tasks(
    tasks: Sequence[str],
    data_dir: str | None,
    check_sizes: bool = True,
) -> list[ProbeTask]:
    """Read each task; raises `DataError`, with file and line, if data is missing or malformed."""
    files = find_files(data_dir)
    return [read_transfer(files, task, check_sizes) for task in tasks]


def part_of(
    task: ProbeTask,
    part: Literal["train", "held-out"],
    classifier: Classifier,
) -> ProbeTask:
    """Return a task for `SentEvalTransfer.part`: `train` has no test examples, `held-out` has training and test.

    A task without a test set is split first: the classifier's first outer fold becomes its test set.
    """
    import numpy as np

    splits = dict(task.splits)
    if "all" in splits:
        whole = splits.pop("all")
        labels = np.array(whole.labels)
        train, test = classifier.cut(labels, np.arange(len(labels)))[0]
        splits["train"] = whole.take(train)
        splits["test"] = whole.take(test)
    if part == "train":
        del splits["test"]
    return attrs.evolve(task, splits=splits)


def protocol_of(task: ProbeTask, classifier: Classifier) -> dict[str, Any]:
    """Return the protocol of a task's accuracy."""
    descriptions = {"all": "nested cross-validation", "train": chosen_on(task)}
    features = FORMULAS[task.features] if TRANSFER[task.name].pairs else "u"
    return {
        "id": "senteval-transfer",
        "classifier": classifier.describe(),
        "features": features,
        "split": descriptions.get(task.scored_on, task.scored_on),
        "examples": {name: len(split) for name, split in task.splits.items()},
        "text": "as in the file, white space as one space",
        "data": task.data,
    }


def chosen_on(task: ProbeTask) -> str:
    """Return a description of how the penalty of a task is chosen."""
    if "all" in task.splits:
        return "inner cross-validation"
    if "dev" in task.splits:
        return "dev"
    return "cross-validation on train"


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
