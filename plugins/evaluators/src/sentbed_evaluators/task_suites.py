"""Task suites, evaluators of several tasks: checks, tasks that are present, average, classifier."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import attrs
from sentbed.errors import DataError, suggest
from sentbed.protocols import (
    Evaluation,
    Evaluator,
    Items,
    Prepared,
    Score,
    Vectors,
)

from sentbed_evaluators.classifier_training import Classifier, Outcome, Progress
from sentbed_evaluators.data_directories import TaskFiles
from sentbed_evaluators.degenerate_scores import one_class

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PROTOCOL_KEYS = (
    "id",
    "mteb",
    "split",
    "features",
    "classifier",
    "penalty",
    "similarity",
    "limit",
    "seed",
    "builder",
    "set_seed",
    "size",
    "text",
    "data",
    "subset",
    "revision",
)
"""Keys of the tasks' protocols that an average's repeats: one value if they agree, else one per task."""


def task_problems(
    tasks: Sequence[str], choices: Collection[str] | None, name: str, what: str = "task"
) -> Iterator[str]:
    """Yield problems with a list of tasks: that it is empty, unknown tasks, repeated ones.

    `name` is the evaluator, `choices` its tasks, or None to accept any task, and `what` the word for them.
    """
    names = tuple(choices or ())
    if not tasks:
        yield f"`{what}s` is empty; name at least one {what}.{suggest('', names)}"
    for i, task in enumerate(tasks):
        if choices is not None and task not in names:
            yield f"`{task}` is not a {what} of `{name}`.{suggest(task, names)}"
        if task in tasks[:i]:
            yield f"{what} `{task}` is listed twice; remove one"


@attrs.frozen
class TaskSuite(Evaluator):
    """An evaluator of several tasks that can leave out those whose files are missing."""

    tasks: tuple[str, ...] | None
    skip_missing: bool

    choices: ClassVar[Collection[str]]
    """Names of all its tasks."""

    @property
    def task_names(self) -> tuple[str, ...]:
        """The tasks to run, in the order of the report."""
        return self.tasks or ()

    def setting_problems(self) -> Iterator[str]:
        """Yield problems that show without any file: unknown or repeated tasks."""
        yield from task_problems(self.task_names, self.choices, self.name)

    @abstractmethod
    def missing(self) -> dict[str, str]:
        """Return the message of each task without data; raises `DataError` if there is none at all."""

    @abstractmethod
    def files_of_tasks(self) -> Iterable[Path]:
        """Return the files of all tasks to run; raises `DataError` if there is no data at all."""

    @abstractmethod
    def prepare_tasks(self) -> Prepared:
        """Read every task; raises `DataError` with file and line."""

    def check(self) -> Iterator[str]:
        """Yield problems with settings and missing data; of skipped tasks, only if nothing is left."""
        yield from self.setting_problems()
        try:
            missing = self.missing()
        except DataError as error:
            yield str(error)
            return
        messages = tuple(dict.fromkeys(missing.values()))
        if not self.skip_missing:
            yield from messages
        elif messages and missing.keys() >= set(self.task_names):
            yield f"`skip_missing` leaves no task: {messages[0]}"

    def without(self, missing: Collection[str]) -> Self:
        """Return the suite of the other tasks."""
        left = tuple(task for task in self.task_names if task not in missing)
        return attrs.evolve(self, tasks=left, skip_missing=False)

    def prepare(self) -> Prepared:
        """Read every task that is not skipped; raises `DataError` with file and line."""
        for problem in self.check():
            raise DataError(problem)
        if not self.skip_missing:
            return self.prepare_tasks()
        missing = self.missing()
        prepared = self.without(missing).prepare_tasks()
        return with_skipped(prepared, partial(self.skipped, missing))

    def skipped(self, missing: Collection[str], score: Score) -> tuple[str, ...]:
        """Return the tasks that are missing beside a score's."""
        return tuple(missing)

    def files(self) -> Iterator[Path]:
        """Yield the files of the tasks that are not skipped."""
        suite = self
        if self.skip_missing:
            suite = self.without(self.missing())
        yield from dict.fromkeys(suite.files_of_tasks())


class FileSuite(TaskSuite):
    """A suite whose tasks have fixed files below one directory."""

    __slots__ = ()

    @abstractmethod
    def task_files(self) -> TaskFiles:
        """Return the files of all its tasks; raises `DataError` if there is no data at all."""

    def missing(self) -> dict[str, str]:
        """Return the message of each task without its files."""
        return self.task_files().missing(self.task_names)

    def files_of_tasks(self) -> Iterator[Path]:
        """Yield the files of all tasks to run."""
        files = self.task_files().by_task
        for task in self.task_names:
            yield from files.get(task, ())


def with_skipped(
    prepared: Prepared, skipped: Callable[[Score], tuple[str, ...]]
) -> Prepared:
    """Return the evaluation with scores that name the tasks which `skipped` returns for them.

    An average that the evaluator gives is over a whole row, and names no tasks.
    """

    def score(vectors: Vectors) -> Evaluation:
        evaluation = prepared.score(vectors)
        scores = []
        for score in evaluation.scores:
            if score.task != "AVG":
                score = attrs.evolve(score, skipped=skipped(score))  # noqa: PLW2901
            scores.append(score)
        return attrs.evolve(evaluation, scores=tuple(scores))

    return attrs.evolve(prepared, score=score)


def average(scores: Sequence[Score], metric: str, **details: Any) -> Score:
    """Return the plain mean of tasks' scores, as the score `AVG`; `details` are added to its protocol.

    It has items if every task's score is a plain mean of items.
    """
    protocol: dict[str, Any] = {
        "aggregation": "mean",
        "of": {score.task: score.metric for score in scores},
    }
    for key in _PROTOCOL_KEYS:
        values = {
            score.task: score.protocol[key] for score in scores if key in score.protocol
        }
        if not values:
            continue
        first = next(iter(values.values()))
        differs = any(value != first for value in values.values())
        protocol[key] = values if differs else first
    return Score(
        "AVG",
        metric,
        mean_value(scores),
        {**protocol, **details},
        items=_joined_items(scores),
        degenerate=_degenerate(scores),
    )


def mean_value(scores: Sequence[Score]) -> float:
    """Return the plain mean of scores."""
    return sum(score.value for score in scores) / len(scores)


def _joined_items(scores: Sequence[Score]) -> Items | None:
    """Return the items of all scores, a group each, if each is a plain mean of items."""
    import numpy as np

    parts = []
    for score in scores:
        items = score.items
        if items is None or items.statistic != "mean" or items.groups is not None:
            return None
        parts.append(items)
    sizes = [len(items.x) for items in parts]
    joined = Items(
        "mean",
        np.concatenate([items.x for items in parts]),
        groups=np.repeat(np.arange(len(sizes)), sizes),
    )
    clusters = [items.clusters for items in parts if items.clusters is not None]
    if len(clusters) < len(parts):
        return joined
    return attrs.evolve(joined, clusters=np.concatenate(clusters))


def _degenerate(scores: Sequence[Score]) -> str:
    names = ", ".join(score.task for score in scores if score.degenerate)
    if not names:
        return ""
    return f"it includes {names}, where the score is degenerate"


def accuracy(
    task: str, outcome: Outcome, labels: NDArray[np.int64], protocol: dict[str, Any]
) -> Score:
    """Return the accuracy of a classifier, with whether each example was right as its items."""
    import numpy as np

    right = (outcome.predicted == labels).astype(np.float64)
    return Score(
        task,
        "accuracy",
        outcome.accuracy,
        protocol,
        items=Items("mean", right, groups=outcome.folds),
        degenerate=one_class(outcome.predicted, outcome.folds),
    )


def classifier_of(
    vectors: Vectors,
    protocol: Literal["senteval", "logistic"],
    mode: Literal["test", "fast"],
    seed: int,
) -> Classifier:
    """Return a classifier on the encoder's device."""
    return Classifier(protocol, mode, seed, vectors.device)


def part_progress(vectors: Vectors, what: str) -> Progress:
    """Return a callback that reports the progress of the classifiers of `what`."""
    return partial(vectors.progress, f"{what}: classifiers")
