"""Who does the tasks of a long job: this process, processes beside it, or the machines of a Ray cluster."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Generator, Sequence
from functools import partial
from typing import Protocol, TypeVar

from sentbed.errors import RuntimeUnavailableError
from sentbed.executors.local import LocalExecutor
from sentbed.executors.pool import RETRIES, Function, Lost, Say, Start, Tell, Told

__all__ = ["NAMES", "Executor", "Function", "LocalExecutor", "Lost", "Start", "Tell", "Told", "executor"]

NAMES = ("local", "ray")

Task = TypeVar("Task")
Result = TypeVar("Result")


class Executor(Protocol):
    """Does tasks that do not depend on each other, in any order and perhaps on other machines."""

    def run(
        self,
        start: Start[Task, Result],
        tasks: Sequence[Task],
        told: Told[Task] = ...,
        lost: Lost[Task, Result] | None = None,
    ) -> Generator[tuple[Task, Result], None, None]:
        """Yield each task with its result, as they are done.

        `start(threads)` is called once in each worker, before its first task; it loads what all tasks need,
        keeps to so many threads (None: its choice), and returns the function `(task, tell) -> result`.
        `start`, tasks and results are pickled. What the function says of its progress with `tell(amount)`
        arrives as `told(task, amount)` where the executor can carry it.

        The task of a worker that died is done again by a new worker, some times, and then is a `RunError`
        that names it by its `str`; with `lost`, it gets the result `lost(task, message)` instead, and the
        others go on. An exception that the function raises is not tried again: it ends all, and is raised
        here. Workers end when the generator is closed: use `contextlib.closing`. Those of the executor
        `local` then get a `KeyboardInterrupt`, and some time to save what is half done.
        """


def executor(
    name: str = "local",
    workers: int = 1,
    *,
    cpus: int | None = None,
    gpus: int = 0,
    address: str | None = None,
    retries: int = RETRIES,
    say: Say | None = None,
) -> Executor:
    """Return the executor of this name.

    `cpus` and `gpus` are what each of `workers` may use (None: what there is, in equal parts; 0 GPUs: as they
    are); `address` is that of a Ray cluster; `say` is told of workers that died.

    Raises:
        RuntimeUnavailableError: where Ray is not installed.
    """
    say = say or partial(print, file=sys.stderr)
    if name == "local":
        return LocalExecutor(workers, cpus, gpus, retries, say)
    if importlib.util.find_spec("ray") is None:
        raise RuntimeUnavailableError(
            "the executor `ray` needs the package `ray`, which is not installed; "
            "run `pip install 'sentbed[ray]'`"
        )
    from sentbed.executors._ray import RayExecutor

    return RayExecutor(workers, cpus, gpus, address, retries, say)
