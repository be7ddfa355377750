"""The task pool of the executor `local`: this process, or several of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import connection as connections
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import attrs
from sentbed.helpers import usable_cores
from sentbed_common import OnDeath, OnProgress, Start, signal_name

from sentbed_jobs.pool_loop import (
    RETRIES,
    Died,
    Event,
    Progress,
    Result,
    Say,
    Task,
    TaskRunner,
    run_pool,
)

PATIENCE = 30.0
"""Seconds that workers have to save unfinished work and clean up when they are ended."""


@attrs.frozen
class LocalPool:
    """Task pool of this process, or, with several workers, of processes of their own."""

    workers: int = 1
    cpus: int | None = None
    """Threads per worker; by default torch's choice for one, and equal shares of the cores for several."""
    gpus: int = 0
    """GPUs reserved for each of several workers; with 0, every worker sees all."""
    retries: int = RETRIES
    say: Say = print

    def run(
        self,
        start: Start[Task, Result],
        tasks: Sequence[Task],
        on_progress: OnProgress[Task] = lambda *_: None,
        on_death: OnDeath[Task, Result] | None = None,
    ) -> Generator[tuple[Task, Result], None, None]:
        """Yield each task with its result; see `TaskPool.run`. A single worker is this process."""
        if self.workers > 1:
            threads = self.cpus or max(1, usable_cores() // self.workers)
            transport = _Processes(start, threads, [*range(self.workers)], self.gpus)
            yield from run_pool(
                transport,
                self.workers,
                tasks,
                self.retries,
                on_progress,
                self.say,
                on_death,
            )
        elif tasks:
            function = start(self.cpus)
            for task in tasks:
                yield task, function(task, partial(on_progress, task))


@attrs.frozen(eq=False)
class _Worker:
    process: BaseProcess
    connection: Connection[Any, Any]
    slot: int


@attrs.frozen(eq=False)
class _Processes:
    start: Start[Any, Any]
    threads: int
    slots: list[int]
    """Free slots; the slot of a worker decides which GPUs it sees."""
    gpus: int

    def start_worker(self) -> _Worker:
        # A forked copy of a process with threads may hang.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        slot = self.slots.pop(0)
        arguments = (theirs, self.start, self.threads, self._environment(slot))
        process = context.Process(target=_work, args=arguments, daemon=True)
        with _interrupts_blocked():
            process.start()
        theirs.close()
        return _Worker(process, ours, slot)

    def _environment(self, slot: int) -> dict[str, str]:
        """Return the variable that shows a worker its own GPUs only."""
        if not self.gpus:
            return {}
        visible = [
            name
            for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
            if name
        ]
        first = slot * self.gpus
        names = [str(number) for number in range(first, first + self.gpus)]
        if visible:
            names = visible[first : first + self.gpus]
        return {"CUDA_VISIBLE_DEVICES": ",".join(names)}

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
        try:
            event: Event = worker.connection.recv()
        except (EOFError, OSError):
            worker.process.join(PATIENCE)
            return Died(_how(worker.process.exitcode))
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
            # Also after a second Ctrl-C, which ends the waiting above.
            for worker in workers:
                worker.process.kill()
                worker.process.join()
                worker.process.close()
                self.slots.append(worker.slot)


def _how(code: int | None) -> str:
    """Return how a process with this exit code ended."""
    if code is None or code >= 0:
        return f"ended with exit code {code}"
    name = signal_name(-code)
    if name == "SIGKILL":
        return f"was killed by {name} (as Linux does where memory runs out)"
    return f"was killed by {name}"


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C, which a terminal sends to all, for processes started within; the parent ends them."""
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
    """Do tasks until the connection closes; at SIGTERM a run saves its state, then `KeyboardInterrupt`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        # A run replaces this handler while it trains.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        os.environ.update(environment)
        runner: TaskRunner[Any, Any] = TaskRunner(start, threads)
        with suppress(EOFError, OSError):
            while True:
                task = connection.recv()
                connection.send(
                    runner.run(task, lambda amount: connection.send(Progress(amount)))
                )
    except KeyboardInterrupt:
        sys.exit(1)
    finally:
        # The process is ending; nothing may interrupt the clean-up of its libraries, not even a SIGTERM now.
        try:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        except KeyboardInterrupt:
            # Not `suppress`, which could itself be interrupted before it suppresses.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
