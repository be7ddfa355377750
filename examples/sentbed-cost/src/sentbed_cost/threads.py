"""The executor `threads`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, ClassVar

import attrs
from attrs.validators import ge
from sentbed.protocols import Executor, Start


@attrs.frozen
class Threads(Executor):
    """Threads of one process: for tasks that wait more than they compute."""

    name: ClassVar[str] = "threads"

    workers: int = attrs.field(default=1, validator=ge(1))
    """Number of tasks at a time."""

    def run(
        self,
        start: Start,
        tasks: Sequence[Any],
        say: Callable[[str], object] = print,
    ) -> Generator[tuple[Any, Any], None, None]:
        """Yield each task with its result, as they are done."""
        if not tasks:
            return
        function = start(None)
        with ThreadPoolExecutor(self.workers) as pool:
            task_of = {pool.submit(function, task): task for task in tasks}
            for future in as_completed(task_of):
                yield task_of[future], future.result()
