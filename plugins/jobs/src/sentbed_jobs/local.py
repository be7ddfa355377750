"""Executor `local`: runs tasks in this process, or in several processes on this machine."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, ClassVar

import attrs
from attrs.validators import ge, optional
from sentbed.protocols import Executor, Start


@attrs.frozen
class Local(Executor):
    """Runs tasks in this process or, with several workers, in processes on this machine."""

    name: ClassVar[str] = "local"

    workers: int = attrs.field(default=1, validator=ge(1))
    """Number of tasks that run at a time. With 1, they run in this process."""
    cpus: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of threads per worker. By default, several workers get equal shares of the cores, and a single
    worker the number that torch chooses."""
    gpus: int = attrs.field(default=0, validator=ge(0))
    """Number of GPUs that are reserved for each of several workers. With 0, every worker sees all GPUs."""

    def run(
        self,
        start: Start,
        tasks: Sequence[Any],
        say: Callable[[str], object] = print,
    ) -> Generator[tuple[Any, Any], None, None]:
        """Yield each task with its result; see `Executor.run`.

        Raises:
            RuntimeUnavailableError: if this process sees too few GPUs for all workers.
        """
        if self.workers > 1:
            from sentbed_jobs.local_processes import run_in_processes

            yield from run_in_processes(
                start, tasks, self.workers, self.cpus, self.gpus, say
            )
        elif tasks:
            function = start(self.cpus)
            for task in tasks:
                yield task, function(task)
