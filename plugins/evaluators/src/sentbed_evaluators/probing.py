"""SentEval's probing tasks: which linguistic properties of a sentence its vector encodes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Literal

import attrs
from sentbed import FilePath
from sentbed.protocols import (
    Evaluation,
    Prepared,
    Score,
    Vectors,
)

from sentbed_evaluators.data_directories import TaskFiles
from sentbed_evaluators.probe import Classifier
from sentbed_evaluators.probe_task import ProbeTask, TextVectors
from sentbed_evaluators.probing_files import TASKS, find_files, read_task
from sentbed_evaluators.task_suites import (
    FileSuite,
    accuracy,
    average,
    mean_value,
    part_progress,
)


@attrs.frozen
class SentEvalProbing(FileSuite):
    """SentEval's ten probing tasks (Conneau et al., 2018): accuracy x 100.

    The features of a linear classifier are the frozen vector of one sentence. The classifier is trained on
    100,000 sentences, its penalty is chosen on 10,000 others, and it is scored on another 10,000. If all ten
    tasks ran, the score `AVG` is their mean. `primary` is the mean over the tasks that ran.
    """

    name: ClassVar[str] = "senteval-probing"
    choices = TASKS
    cites = ("conneau2018probing",)

    tasks: tuple[str, ...] = tuple(TASKS)
    """Tasks in the order of the report: `Length`, `WordContent`, `Depth`, `TopConstituents`, `BigramShift`,
    `Tense`, `SubjNumber`, `ObjNumber`, `OddManOut`, `CoordinationInversion`. Default: all, in this order."""
    mode: Literal["test", "fast"] = "test"
    """SentEval's settings: `test` for papers, `fast` for prototypes."""
    data_dir: FilePath | None = None
    """SentEval's directory `probing`, or a directory above it; default: `SENTBED_DATA`."""
    seed: int = 1111
    """Seed of the classifier. SentEval's is 1111."""
    check_sizes: bool = True
    """Whether other numbers of rows or classes than in SentEval's files are an error."""
    skip_missing: bool = False
    """Whether tasks with missing files are left out; if false, a missing file is an error. At least one task must
    have its files. Scores name the tasks that were left out, and the report marks a mean over the other tasks as
    incomplete."""

    def task_files(self) -> TaskFiles:
        """Return the files of all tasks of the suite; raises `DataError` if no file of any task is found."""
        return find_files(self.data_dir)

    def prepare_tasks(self) -> Prepared:
        """Read the data of every task; raises `DataError`, with file and line, if it is missing or malformed."""
        files = self.task_files()
        tasks = []
        for name in self.tasks:
            task = read_task(files, name, self.check_sizes)
            task.folds(Classifier(self.mode, self.seed))
            tasks.append(task)
        lists = {task.name: task.texts for task in tasks}
        return Prepared(
            lists,
            partial(self._evaluation, tasks),
            item_texts=lambda: {task.name: task.item_texts for task in tasks},
        )

    def _evaluation(self, tasks: Sequence[ProbeTask], vectors: Vectors) -> Evaluation:
        """Train and score the classifiers of all tasks; raises `RunError` for zero or non-finite embeddings."""
        scores = [self._score(task, vectors) for task in tasks]
        mean = mean_value(scores)
        if set(self.tasks) == set(TASKS):
            scores.append(average(scores, "mean"))
        return Evaluation(tuple(scores), primary=mean)

    def _score(self, task: ProbeTask, vectors: Vectors) -> Score:
        """Train the classifier of one task, and score it on the test part."""
        classifier = Classifier(self.mode, self.seed, vectors.device)
        progress = part_progress(vectors, task.name)
        text_vectors = TextVectors.of(vectors, task.name)
        (outcome,) = task.probe(text_vectors, [classifier], progress)
        protocol = {
            "id": self.name,
            "aggregation": "single",
            "split": "test",
            "features": "u",
            "classifier": classifier.describe(),
            "classes": task.classes,
            "train": len(task.splits["train"]),
            "development": len(task.splits["dev"]),
            "test": len(task.splits["test"]),
            "text": "words joined by one space",
            "data": task.data,
        }
        return accuracy(task.name, outcome, protocol)
