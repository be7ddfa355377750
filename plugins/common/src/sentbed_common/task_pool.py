"""Interface of a task pool, which runs the independent tasks of a long job on workers.

Each executor (local processes, a cluster) provides one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Protocol, TypeAlias, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

Start: TypeAlias = Callable[[int | None], Callable[[Task], Result]]
"""Function that is called once per worker with its number of threads (None: no limit); returns the function
that runs a task."""
OnDeath: TypeAlias = Callable[[Task, str], Result]
"""Function that is called if a task's workers died, with the task and the reason; returns the task's result."""


class TaskPool(Protocol):
    """Runs independent tasks in any order, possibly on other machines."""

    def run(
        self,
        start: Start[Task, Result],
        tasks: Sequence[Task],
        on_death: OnDeath[Task, Result] | None = None,
    ) -> Generator[tuple[Task, Result], None, None]:
        """Yield tasks with their results, in order of completion.

        `start(threads)` is called once per worker before its first task: it loads what all tasks need, uses
        at most `threads` threads, and returns the function `task -> result`. `start`, tasks and results are
        pickled.

        If a worker dies, a new one retries its task a few times. After that, `run` raises a `RunError` with
        `str(task)` in its message, or, if `on_death` is given, yields `on_death(task, message)` as the task's
        result and goes on with the others. If the function raises an exception, nothing is retried: all tasks
        end, and the exception is raised here. Workers end when the generator is closed: use
        `contextlib.closing`.
        """
