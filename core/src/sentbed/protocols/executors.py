"""Executors: who does the tasks of a long job."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from sentbed.protocols.components import Component

Task = TypeVar("Task")
Result = TypeVar("Result")

Tell: TypeAlias = Callable[[int], None]
"""Called within a task with how much more of it is done."""
Start: TypeAlias = Callable[[int | None], Callable[[Task, Tell], Result]]
"""Called once per worker with the threads that it may use (None: its choice); returns what does a task."""
Told: TypeAlias = Callable[[Task, int], None]
"""Called with a task and how much more of it is done."""
Lost: TypeAlias = Callable[[Task, str], Result]
"""Called with a task whose workers died and the reason; returns the result in its place."""


class TaskPool(Protocol):
    """Does tasks that do not depend on each other, in any order and perhaps on other machines."""

    def run(
        self,
        start: Start[Task, Result],
        tasks: Sequence[Task],
        told: Told[Task] = ...,
        lost: Lost[Task, Result] | None = None,
    ) -> Generator[tuple[Task, Result], None, None]:
        """Yield each task with its result, as they are done.

        `start(threads)` is called once per worker, before its first task: it loads what all tasks need, keeps
        to so many threads, and returns the function `(task, tell) -> result`. `start`, tasks and results are
        pickled. Progress that the function reports with `tell(amount)` arrives as `told(task, amount)`, where
        the executor can carry it.

        The task of a worker that died is done again by a new worker, some times, and then is a `RunError`
        that names it by its `str`; with `lost`, it gets the result `lost(task, message)` instead, and the
        others go on. An exception that the function raises is not tried again: it ends all, and is raised
        here. Workers end when the generator is closed: use `contextlib.closing`.
        """


class Executor(Component):
    """Who does the tasks of a long job. Its fields are options of the command line, such as `workers`."""

    __slots__ = ()

    @abstractmethod
    def build(self, say: Callable[[str], Any]) -> TaskPool:
        """Return the pool; `say` is told of workers that died.

        Raises `RuntimeUnavailableError` where a package is missing or no cluster answers.
        """
