"""The protocol of a task pool, which an executor builds: it runs the tasks of a long job."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Protocol, TypeAlias, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

Tell: TypeAlias = Callable[[int], None]
"""A task calls it with the amount of work done since its last call."""
Start: TypeAlias = Callable[[int | None], Callable[[Task, Tell], Result]]
"""Called once per worker with its number of threads (None: no limit); returns the function for tasks."""
OnProgress: TypeAlias = Callable[[Task, int], None]
"""Callback for a task and the amount of it done since the last call."""
OnDeath: TypeAlias = Callable[[Task, str], Result]
"""Called with a task whose workers died and the reason; returns a substitute result."""


class TaskPool(Protocol):
    """Runs independent tasks in any order, possibly on other machines."""

    def run(
        self,
        start: Start[Task, Result],
        tasks: Sequence[Task],
        on_progress: OnProgress[Task] = ...,
        on_death: OnDeath[Task, Result] | None = None,
    ) -> Generator[tuple[Task, Result], None, None]:
        """Yield tasks with their results, in order of completion.

        `start(threads)` is called once per worker before its first task: it loads what all tasks need, uses
        at most `threads` threads, and returns the function `(task, tell) -> result`. `start`, tasks and
        results are pickled. Progress reported with `tell(amount)` is passed on to
        `on_progress(task, amount)`, if the executor supports it.

        The task of a worker that died is retried by a new worker a few times, then raises a `RunError` that
        names it by its `str`; with `on_death`, its result is `on_death(task, message)` instead, and the other
        tasks continue. If the function raises an exception, nothing is retried: all tasks end, and the
        exception is raised here. Workers end when the generator is closed: use `contextlib.closing`.
        """
