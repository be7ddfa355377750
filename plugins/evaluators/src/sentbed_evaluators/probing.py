"""SentEval's probing tasks: which linguistic properties of a sentence its vector encodes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import chain
from typing import ClassVar, Literal

import attrs
from sentbed import FilePath
from sentbed.protocols import (
    Evaluation,
    Prepared,
    Score,
    Texts,
    Vectors,
)

from sentbed_evaluators.classifier_dataclasses import Examples
from sentbed_evaluators.cosine_correlation import nonzero
from sentbed_evaluators.data_directories import TaskFiles, digest
from sentbed_evaluators.labelled_text_vectors import consecutive_rows
from sentbed_evaluators.probe import Classifier
from sentbed_evaluators.probing_files import TASKS, Part, find_files, read_task
from sentbed_evaluators.task_suites import (
    FileSuite,
    accuracy,
    average,
    mean_value,
    part_progress,
)


@attrs.frozen(eq=False)
class _TaskData:
    """The data of one task."""

    parts: tuple[Part, ...]
    """Training, development and test part."""
    hash: str
    """SHA-256 of the task's file."""


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
    protocol: Literal["senteval", "logistic"] = "senteval"
    """Training of the classifier. `senteval`: as SentEval trains its classifier in PyTorch. `logistic`:
    L2-regularised logistic regression to convergence, by scikit-learn."""
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
        tasks: dict[str, _TaskData] = {}
        lists: dict[str, Texts] = {}
        for task in self.tasks:
            (file,) = files[task]
            classes = None
            if self.check_sizes:
                classes = TASKS[task][1]
            data = _TaskData(read_task(file, classes), digest([file]))
            tasks[task] = data
            texts = chain.from_iterable(part.texts for part in data.parts)
            lists[task] = Texts(list(texts))
        return Prepared(
            lists,
            partial(self._evaluation, tasks),
            item_texts=partial(_item_texts, tasks),
        )

    def _evaluation(
        self, tasks: Mapping[str, _TaskData], vectors: Vectors
    ) -> Evaluation:
        """Train and score the classifiers of all tasks; raises `RunError` for zero or non-finite embeddings."""
        scores = [self._score(task, data, vectors) for task, data in tasks.items()]
        mean = mean_value(scores)
        if set(self.tasks) == set(TASKS):
            scores.append(average(scores, "mean"))
        return Evaluation(tuple(scores), primary=mean)

    def _score(
        self,
        task: str,
        data: _TaskData,
        vectors: Vectors,
    ) -> Score:
        """Train the classifier of one task, and score it on the test part."""
        import numpy as np

        labels = np.concatenate([part.labels for part in data.parts])
        examples = Examples(nonzero(vectors, task), labels)
        train, development, test = consecutive_rows([len(p.texts) for p in data.parts])
        classifier = Classifier(self.protocol, self.mode, self.seed, vectors.device)
        classes = int(labels[train].max()) + 1
        folds = classifier.split(labels, train, development, test)
        progress = part_progress(vectors, task)
        outcome = classifier.probe(examples, classes, folds, "split", progress)
        protocol = {
            "id": f"{self.name}{classifier.suffix}",
            "aggregation": "single",
            "split": "test",
            "features": "u",
            "classifier": classifier.describe(),
            "classes": classes,
            "train": len(train),
            "development": len(development),
            "test": len(test),
            "text": "words joined by one space",
            "data": data.hash,
        }
        return accuracy(task, outcome, protocol)


def _item_texts(tasks: Mapping[str, _TaskData]) -> dict[str, list[tuple[str]]]:
    """Return, for each task, the sentences of its test part, one for each item of the score."""
    texts = {}
    for task, data in tasks.items():
        texts[task] = [(text,) for text in data.parts[-1].texts]
    return texts
