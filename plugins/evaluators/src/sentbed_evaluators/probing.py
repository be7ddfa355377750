"""SentEval's probing tasks: what a sentence vector says of its sentence's form."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal

import attrs
from sentbed import DataError, FilePath
from sentbed.protocols import Evaluation, Evaluator, EvaluatorTraits, Items, Score, TextEncoder

from sentbed_evaluators.fits import Examples
from sentbed_evaluators.probing_files import TASKS, find_root, read_task
from sentbed_evaluators.senteval_files import digest
from sentbed_evaluators.similarity import embed_nonzero
from sentbed_evaluators.tasks import average, classifier_of, part_progress, task_problems


@attrs.frozen
class SentEvalProbing(Evaluator):
    """SentEval's ten probing tasks (Conneau et al., 2018): accuracy x 100.

    A linear classifier on the frozen vector of one sentence is trained on 100,000 sentences, its penalty is
    chosen on 10,000, and it is scored on 10,000. `AVG`, where all ten tasks ran, is their plain mean;
    `primary` is the mean over the tasks that ran.
    """

    name: ClassVar[str] = "senteval-probing"
    traits = EvaluatorTraits(cites=("conneau2018probing",))

    tasks: tuple[str, ...] = tuple(TASKS)
    """Tasks in the order of the report: `Length`, `WordContent`, `Depth`, `TopConstituents`, `BigramShift`,
    `Tense`, `SubjNumber`, `ObjNumber`, `OddManOut`, `CoordinationInversion`. Default: all, in this order."""
    protocol: Literal["senteval", "logistic"] = "senteval"
    """How the classifier is trained: `senteval`, as that toolkit does, or `logistic`, an exact L2-regularised
    logistic regression."""
    mode: Literal["test", "fast"] = "test"
    """SentEval's setting: `test` is that of papers, `fast` that of prototypes."""
    data_dir: FilePath | None = None
    """SentEval's `probing` directory, `downstream` beside it, or one above them; default: `SENTBED_DATA`."""
    seed: int = 1111
    """Decides how the classifier starts. SentEval's is 1111."""
    check_sizes: bool = True
    """Whether every file must have as many rows and classes as SentEval's."""

    def check(self) -> Iterator[str]:
        """Yield unknown or repeated tasks, and data that is not there."""
        yield from task_problems(self.tasks, TASKS, self.name)
        try:
            root = find_root(self.data_dir)
        except DataError as error:
            yield str(error)
            return
        for task in dict.fromkeys(self.tasks):
            if task in TASKS and not (root / TASKS[task][0]).is_file():
                yield (
                    f"task `{task}` needs `{TASKS[task][0]}`, missing in `{root}`; put SentEval's file there "
                    f"(`sentbed data get senteval-probing` does), or leave the task out"
                )

    def read(self) -> None:
        """Read every task; raises `DataError` that names file and line."""
        for problem in self.check():
            raise DataError(problem)
        root = find_root(self.data_dir)
        for task in self.tasks:
            read_task(root / TASKS[task][0], TASKS[task][1] if self.check_sizes else None)

    def files(self) -> Iterator[Path]:
        """Yield the files of the tasks."""
        root = find_root(self.data_dir)
        yield from (root / TASKS[task][0] for task in self.tasks if task in TASKS)

    def evaluate(self, encoder: TextEncoder) -> Evaluation:
        """Encode, train and score, task by task.

        Raises:
            DataError: where data is missing or unreadable; names file and line.
            RunError: where an embedding is not finite or zero.
        """
        for problem in self.check():
            raise DataError(problem)
        root = find_root(self.data_dir)
        scores = [self._score(root, task, encoder) for task in self.tasks]
        mean = sum(score.value for score in scores) / len(scores)
        if set(self.tasks) == set(TASKS):
            scores.append(average(scores, "mean"))
        return Evaluation(tuple(scores), primary=mean)

    def _score(self, root: Path, task: str, encoder: TextEncoder) -> Score:
        import numpy as np

        file = root / TASKS[task][0]
        parts = read_task(file, TASKS[task][1] if self.check_sizes else None)
        vectors = embed_nonzero(encoder, [text for part in parts for text in part.texts])
        ends = np.cumsum([len(part.texts) for part in parts])
        train, development, test = (
            Examples(vectors[end - len(part.texts) : end], part.labels)
            for part, end in zip(parts, ends, strict=True)
        )
        classifier = classifier_of(encoder, self.protocol, self.mode, self.seed)
        classes = int(train.labels.max()) + 1
        outcome = classifier.split(train, development, test, classes, part_progress(encoder, task))
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
            "data": digest([file]),
        }
        right = (outcome.predicted == test.labels).astype(np.float64)
        return Score(task, "accuracy", outcome.accuracy, protocol, items=Items("mean", right))
