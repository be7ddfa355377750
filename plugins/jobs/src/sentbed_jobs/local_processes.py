"""Worker processes on this machine; one that dies is replaced, and its task is tried once more."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import suppress
from multiprocessing import connection as connections
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from traceback import format_exc
from typing import Any

import attrs
from sentbed.errors import RuntimeUnavailableError
from sentbed.helpers import usable_cores
from sentbed.protocols import Start

from sentbed_jobs.lost_task import RETRIES, lost_task

PATIENCE = 30.0
"""Seconds that workers have after SIGTERM to save unfinished work and to clean up, before they are killed."""


@attrs.define(eq=False)
class _Worker:
    """A worker process, and the connection over which it gets tasks and sends results."""

    process: BaseProcess
    connection: Connection[Any, Any]
    number: int
    """Number below the number of workers, which determines the GPUs of the worker."""
    task: Any = None
    deaths: int = 0
    """Number of workers that have died of the task before."""

    def submit(self, task: Any, deaths: int) -> None:
        """Send a task. If the worker has died, its connection says so when it is read."""
        self.task = task
        self.deaths = deaths
        with suppress(OSError):
            self.connection.send(task)


@attrs.frozen
class _Failure:
    """Answer of a worker whose task has raised an exception."""

    error: Exception
    traceback: str


def run_in_processes(
    start: Start,
    tasks: Sequence[Any],
    count: int,
    threads: int | None,
    gpus: int,
    say: Callable[[str], object],
) -> Generator[tuple[Any, Any], None, None]:
    """Yield each task with its result; see `Executor.run`.

    `count` processes work at a time. Each has so many `threads`, by default an equal share of the cores, and so
    many `gpus`; with 0, it sees all.

    Raises:
        RuntimeUnavailableError: if this process sees too few GPUs.
    """
    threads = threads or max(1, usable_cores() // count)
    waiting = deque((task, 0) for task in tasks)
    free_numbers = list(range(count))
    workers: dict[Any, _Worker] = {}
    try:
        while waiting or workers:
            while waiting and free_numbers:
                worker = _start_worker(start, threads, free_numbers.pop(0), gpus)
                workers[worker.connection] = worker
                worker.submit(*waiting.popleft())

            failure = None
            for connection in connections.wait(list(workers)):
                worker = workers[connection]
                task = worker.task
                try:
                    answer = worker.connection.recv()
                except (EOFError, OSError):
                    del workers[connection]
                    free_numbers.append(worker.number)
                    _end([worker])
                    death = f"ended with exit code {worker.process.exitcode}"
                    if worker.deaths < RETRIES:
                        say(f"a worker {death}; {task}: done again by a new one")
                        waiting.appendleft((task, worker.deaths + 1))
                    else:
                        yield task, lost_task(task, death)
                    continue

                if isinstance(answer, _Failure):
                    # It must not lose results that arrive together with it.
                    failure = answer
                    continue

                if waiting:
                    worker.submit(*waiting.popleft())
                else:
                    del workers[connection]
                    free_numbers.append(worker.number)
                    _end([worker])
                yield task, answer

            if failure is not None:
                raise failure.error from RuntimeError(f"\n{failure.traceback}")
    finally:
        _end(workers.values())


def _start_worker(
    start: Start,
    threads: int,
    number: int,
    gpus: int,
) -> _Worker:
    """Start a worker process."""
    # Processes are spawned, since a forked copy of a process with threads may hang.
    context = multiprocessing.get_context("spawn")
    connection, connection_of_worker = context.Pipe()
    # Daemonic processes are ended when this process exits.
    process = context.Process(
        target=_work,
        args=(connection_of_worker, start, threads, _visible_gpus(number, gpus)),
        daemon=True,
    )

    # A terminal sends Ctrl-C to all processes, but this process ends its workers itself.
    signals = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)

    # With a second copy of this end open, `recv` would wait forever for a worker that has died.
    connection_of_worker.close()
    return _Worker(process, connection, number)


def _visible_gpus(number: int, gpus: int) -> str | None:
    """Return `CUDA_VISIBLE_DEVICES` of a worker that has so many GPUs; None for all that this process sees.

    Raises:
        RuntimeUnavailableError: if this process sees too few.
    """
    if not gpus:
        return None

    first = number * gpus
    last = first + gpus
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(index) for index in range(last)]
    if visible:
        names = visible.split(",")
    if len(names) < last:
        raise RuntimeUnavailableError(
            f"`CUDA_VISIBLE_DEVICES` is `{visible}`, and {number + 1} workers with {gpus} GPUs each need more; "
            "take fewer workers, or give each fewer"
        )
    return ",".join(names[first:last])


def _end(workers: Collection[_Worker]) -> None:
    """End workers at the same time. Some of them may be dead."""
    try:
        for worker in workers:
            worker.connection.close()
            worker.process.terminate()
        end = time.monotonic() + PATIENCE
        for worker in workers:
            worker.process.join(max(0.0, end - time.monotonic()))
    finally:
        # A second Ctrl-C may have interrupted `join` above; all processes are ended in any case.
        for worker in workers:
            worker.process.kill()
            worker.process.join()


def _work(
    connection: Connection[Any, Any],
    start: Start,
    threads: int,
    visible_gpus: str | None,
) -> None:
    """Run tasks in a worker process until the connection is closed, or until SIGTERM.

    SIGTERM raises `KeyboardInterrupt` in the task, so that it can clean up.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # During a training, the run replaces this handler by one that saves a training state first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if visible_gpus is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible_gpus
    function = None
    try:
        with suppress(EOFError, OSError):
            while True:
                task = connection.recv()
                try:
                    function = function or start(threads)
                    answer = function(task)
                except Exception as error:  # noqa: BLE001 - it is raised again in the process that called the executor
                    answer = _Failure(_portable(error), format_exc())
                connection.send(answer)
    except KeyboardInterrupt:
        sys.exit(1)
    finally:
        # Another SIGTERM must not interrupt the clean-up of libraries.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _portable(error: Exception) -> Exception:
    """Return an exception, or one with the same message if it cannot be sent to another process."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - a class may forbid pickling by any exception
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
