"""Task pool of the executor `local`: runs tasks in this process, or in several processes on this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import connection as connections
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import attrs
from sentbed.errors import RuntimeUnavailableError
from sentbed.helpers import usable_cores
from sentbed_common import OnDeath, Start

from sentbed_jobs.pool_loop import (
    RETRIES,
    Died,
    Event,
    Result,
    Say,
    Task,
    TaskRunner,
    run_pool,
)

PATIENCE = 30.0
"""Seconds that workers have after SIGTERM to save unfinished work and to clean up, before they are killed."""


@attrs.frozen
class LocalPool:
    """Runs tasks in this process or, with several workers, in a process per worker."""

    workers: int = 1
    cpus: int | None = None
    """Number of threads per worker; see `Local`."""
    gpus: int = 0
    """Number of GPUs per worker; see `Local`."""
    retries: int = RETRIES
    say: Say = print

    def run(
        self,
        start: Start[Task, Result],
        tasks: Sequence[Task],
        on_death: OnDeath[Task, Result] | None = None,
    ) -> Generator[tuple[Task, Result], None, None]:
        """Yield each task with its result; see `TaskPool.run`.

        Raises:
            RuntimeUnavailableError: if this process sees too few GPUs for all workers.
        """
        if self.workers > 1:
            threads = self.cpus or max(1, usable_cores() // self.workers)
            transport = _Processes(start, threads, [*range(self.workers)], self.gpus)
            yield from run_pool(
                transport,
                self.workers,
                tasks,
                self.retries,
                self.say,
                on_death,
            )
        elif tasks:
            function = start(self.cpus)
            for task in tasks:
                yield task, function(task)


@attrs.frozen(eq=False)
class _Worker:
    """A worker process, and the connection over which it gets tasks and sends events."""

    process: BaseProcess
    connection: Connection[Any, Any]
    slot: int
    """Number from 0 to one less than the number of workers, which determines the GPUs of the worker."""


@attrs.frozen(eq=False)
class _Processes:
    """Transport (`pool_loop.Transport`) between the pool and its worker processes."""

    start: Start[Any, Any]
    threads: int
    slots: list[int]
    """Slots that no worker has."""
    gpus: int

    def start_worker(self) -> _Worker:
        # Processes are spawned, since a forked copy of a process with threads may hang.
        context = multiprocessing.get_context("spawn")
        connection_of_pool, connection_of_worker = context.Pipe()
        slot = self.slots.pop(0)
        environment = self._environment(slot)
        arguments = (connection_of_worker, self.start, self.threads, environment)
        # Daemonic processes are ended when this process exits.
        process = context.Process(
            target=_work,
            args=arguments,
            daemon=True,
        )
        with _interrupts_blocked():
            process.start()

        # With a second copy of this end open, `recv` would wait forever for a worker that has died.
        connection_of_worker.close()
        return _Worker(process, connection_of_pool, slot)

    def _environment(self, slot: int) -> dict[str, str]:
        """Return the environment variable that limits a worker to the GPUs of its slot; empty without GPUs.

        Raises:
            RuntimeUnavailableError: if this process sees too few GPUs.
        """
        if not self.gpus:
            return {}

        names = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        visible = [name for name in names if name]
        first = slot * self.gpus
        last = first + self.gpus
        if not visible:
            visible = [str(number) for number in range(last)]
        if len(visible) < last:
            raise RuntimeUnavailableError(
                f"`CUDA_VISIBLE_DEVICES` is `{','.join(visible)}`, and {slot + 1} workers with {self.gpus} GPUs "
                "each need more; take fewer workers, or give each fewer"
            )
        return {"CUDA_VISIBLE_DEVICES": ",".join(visible[first:last])}

    def submit(self, worker: _Worker, task: Any) -> None:
        with suppress(OSError):
            worker.connection.send(task)

    def wait(self, workers: Sequence[_Worker]) -> list[tuple[_Worker, Event]]:
        by_connection = {worker.connection: worker for worker in workers}
        events = []
        for connection in connections.wait(list(by_connection)):
            worker = by_connection[connection]  # type: ignore[index]  # all are connections of workers
            events.append((worker, self._next(worker)))
        return events

    def _next(self, worker: _Worker) -> Event:
        """Return the next event of a worker, which may be its death."""
        try:
            event: Event = worker.connection.recv()
        except (EOFError, OSError):
            worker.process.join(PATIENCE)
            return Died(f"ended with exit code {worker.process.exitcode}")
        return event

    def shutdown(self, workers: Sequence[_Worker]) -> None:
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
                worker.process.close()
                self.slots.append(worker.slot)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block SIGINT in the processes that are started in the block.

    A terminal sends Ctrl-C to all processes, but the parent process ends its workers itself.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(
    connection: Connection[Any, Any],
    start: Start[Any, Any],
    threads: int,
    environment: dict[str, str],
) -> None:
    """Run tasks in a worker process until the connection is closed, or until SIGTERM.

    SIGTERM raises `KeyboardInterrupt` in the task, so that it can clean up.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        # During a training, the run replaces this handler by one that saves a training state first.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        os.environ.update(environment)
        runner: TaskRunner[Any, Any] = TaskRunner(start, threads)
        with suppress(EOFError, OSError):
            while True:
                task = connection.recv()
                connection.send(runner.run(task))
    except KeyboardInterrupt:
        sys.exit(1)
    finally:
        # The process ends. Another SIGTERM must not interrupt the clean-up of its libraries.
        try:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        except KeyboardInterrupt:
            # `contextlib.suppress` would not do: it could be interrupted before it takes effect.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
