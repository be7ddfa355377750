"""Base classes of suites (evaluators of several tasks), and functions for their scores."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

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

from sentbed_evaluators.data_directories import TaskFiles
from sentbed_evaluators.degenerate_scores import one_class
from sentbed_evaluators.probe import Outcome, Progress

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
"""Keys that the protocol of an average takes over from the protocols of its tasks. If all tasks have the same
value, it is the value of the key; otherwise the key has the value of each task."""


def task_problems(
    tasks: Sequence[str],
    choices: Collection[str] | None,
    name: str,
    what: str = "task",
) -> Iterator[str]:
    """Yield problems with a list of tasks: that it is empty, or has unknown or repeated tasks.

    `name` is the evaluator's name, for messages. `choices` are its tasks; None accepts any task. `what` is the
    word for an entry of the list, in the singular.
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
    """An evaluator of several tasks, which can leave out tasks whose files are missing."""

    tasks: tuple[str, ...] | None
    skip_missing: bool

    choices: ClassVar[Collection[str]]
    """Names of all tasks of the suite."""

    @property
    def task_names(self) -> tuple[str, ...]:
        """The tasks to run, in the order of the report."""
        return self.tasks or ()

    def setting_problems(self) -> Iterator[str]:
        """Yield problems with settings that are found without reading data, such as unknown or repeated tasks."""
        yield from task_problems(self.task_names, self.choices, self.name)

    @abstractmethod
    def missing(self) -> dict[str, str]:
        """Return, by task, a message for each task that lacks data; raises `DataError` if all data is missing."""

    @abstractmethod
    def files_of_tasks(self) -> Iterable[Path]:
        """Return the files of all tasks to run; raises `DataError` if all data is missing."""

    @abstractmethod
    def prepare_tasks(self) -> Prepared:
        """Read the data of every task; raises `DataError`, with file and line, if it is missing or malformed."""

    def check(self) -> Iterator[str]:
        """Yield problems with settings and with missing data.

        With `skip_missing`, missing data is a problem only if no task has data.
        """
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
        """Return the suite without the missing tasks."""
        present = tuple(task for task in self.task_names if task not in missing)
        return attrs.evolve(self, tasks=present, skip_missing=False)

    def prepare(self) -> Prepared:
        """Read every task that is not skipped; raises `DataError`, with file and line, for malformed data."""
        for problem in self.check():
            raise DataError(problem)
        if not self.skip_missing:
            return self.prepare_tasks()
        missing = self.missing()
        prepared = self.without(missing).prepare_tasks()
        return with_skipped(prepared, partial(self.skipped, missing))

    def skipped(self, missing: Collection[str], score: Score) -> tuple[str, ...]:
        """Return the missing tasks that tables would show in the row of a score; by default, all of them."""
        return tuple(missing)

    def files(self) -> Iterator[Path]:
        """Yield the files of the tasks that are not skipped."""
        suite = self
        if self.skip_missing:
            suite = self.without(self.missing())
        yield from dict.fromkeys(suite.files_of_tasks())


class FileSuite(TaskSuite):
    """A suite whose tasks have files of fixed names in one directory."""

    __slots__ = ()

    @abstractmethod
    def task_files(self) -> TaskFiles:
        """Return the files of all tasks of the suite; raises `DataError` if no file of any task is found."""

    def missing(self) -> dict[str, str]:
        """Return, by task, a message for each task to run that lacks a file."""
        return self.task_files().missing(self.task_names)

    def files_of_tasks(self) -> Iterator[Path]:
        """Yield the files of all tasks to run."""
        files = self.task_files().by_task
        for task in self.task_names:
            yield from files.get(task, ())


def with_skipped(
    prepared: Prepared, skipped: Callable[[Score], tuple[str, ...]]
) -> Prepared:
    """Return an evaluation in which each score names its skipped tasks: those that `skipped` returns for it.

    The score `AVG` names none, since it exists only if no task of its mean was skipped.
    """

    def score(vectors: Vectors) -> Evaluation:
        evaluation = prepared.score(vectors)
        scores = []
        for task_score in evaluation.scores:
            if task_score.task == "AVG":
                scores.append(task_score)
            else:
                scores.append(attrs.evolve(task_score, skipped=skipped(task_score)))
        return attrs.evolve(evaluation, scores=tuple(scores))

    return attrs.evolve(prepared, score=score)


def average(
    scores: Sequence[Score],
    metric: str,
    **details: Any,
) -> Score:
    """Return the mean of the scores of tasks, as the score `AVG`; `details` are added to its protocol.

    It has items if the score of every task is a mean of items.
    """
    protocol: dict[str, Any] = {
        "aggregation": "mean",
        "of": {score.task: score.metric for score in scores},
    }
    for key in _PROTOCOL_KEYS:
        values = {}
        for score in scores:
            if key in score.protocol:
                values[score.task] = score.protocol[key]
        if not values:
            continue
        first, *others = values.values()
        protocol[key] = first
        if any(value != first for value in others):
            protocol[key] = values
    return Score(
        "AVG",
        metric,
        mean_value(scores),
        {**protocol, **details},
        items=_joined_items(scores),
        degenerate=_degenerate(scores),
    )


def mean_value(scores: Sequence[Score]) -> float:
    """Return the mean of the values of scores."""
    return sum(score.value for score in scores) / len(scores)


def _joined_items(scores: Sequence[Score]) -> Items | None:
    """Return the items of all scores, one group per score; None if a score is no mean of ungrouped items."""
    import numpy as np

    values, groups, clusters = [], [], []
    for number, score in enumerate(scores):
        items = score.items
        if items is None or items.statistic != "mean" or items.groups is not None:
            return None
        values.append(items.x)
        groups.append(np.full(len(items.x), number))
        if items.clusters is not None:
            clusters.append(items.clusters)
    joined = Items("mean", np.concatenate(values), groups=np.concatenate(groups))
    if len(clusters) < len(scores):
        return joined
    return attrs.evolve(joined, clusters=np.concatenate(clusters))


def _degenerate(scores: Sequence[Score]) -> str:
    """Return the reason why an average is degenerate; empty if it is not.

    The reason names the tasks with degenerate scores.
    """
    names = ", ".join(score.task for score in scores if score.degenerate)
    if not names:
        return ""
    return f"it includes {names}, where the score is degenerate"


def accuracy(
    task: str,
    outcome: Outcome,
    protocol: dict[str, Any],
) -> Score:
    """Return a classifier's accuracy as a score; its items are 1 for correctly classified examples, else 0."""
    import numpy as np

    right = (outcome.predicted == outcome.gold).astype(np.float64)
    return Score(
        task,
        "accuracy",
        outcome.accuracy,
        protocol,
        items=Items("mean", right, groups=outcome.folds),
        degenerate=one_class(outcome.predicted, outcome.folds),
    )


def part_progress(vectors: Vectors, what: str) -> Progress:
    """Return a callback that reports the progress of training the classifiers of the task `what`."""
    return partial(vectors.progress, f"{what}: classifiers")
