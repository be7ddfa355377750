"""Remote calls: every other process (`serve`) repeats the calls that the first makes of its engine (`Lead`).

A call is sent to the others, every process runs it, and the others reply. So the first process notices the
end of another by its closed connection, and a failure by its reply; no error of a collective is interpreted.
"""

from __future__ import annotations

import atexit
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar, cast

import attrs
import torch.distributed as dist
from sentbed import RunError, SentbedError
from sentbed.helpers import SAME_SIGNAL, SIGNALS
from sentbed.protocols import PlacedEncoder, StepResult, Trainer

from sentbed_hardware._common.process_messages import (
    ENDED,
    packed,
    receive,
    send,
    send_tensors,
    unpacked,
)
from sentbed_hardware.engine_parts.process_group import Processes

Method = TypeVar("Method", bound=Callable[..., Any])

FAILED = 1
"""Exit code of a process that ends because another one did."""
PATIENCE = 20.0
"""Seconds that a process waits after a failed call for the others to fail as well."""
REMEDY = "the states on disk are whole: go on with `sentbed run --resume DIRECTORY`"


@attrs.frozen
class Reply:
    """The answer of another process after a call."""

    failure: str | None = None
    """Error of the call, or None."""
    result: Any = None
    """Result of the call, if it was requested."""
    signal: int = 0
    """Number of the signal that asked that process to end, or 0."""


def in_all_processes(method: Method) -> Method:
    """Decorate a method so that every process runs it when the first process calls it.

    Its object has the attribute `processes` and exists in every process: it is an engine, or the result of
    such a call.
    """

    @wraps(method)
    def of_all(self: Any, *arguments: Any) -> Any:
        if self.processes.leads:
            return self.processes.lead.call(of_all, (self, *arguments))[0]

        return method(self, *arguments)

    return cast("Method", of_all)


@contextmanager
def _deferred_signals() -> Iterator[None]:
    """Defer signals to the end of a call, since all processes or none must complete it.

    A signal that is repeated more than `SAME_SIGNAL` seconds later ends the call. If the call fails, that
    ends the run, and the signal is dropped.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    arrived: dict[int, float] = {}

    def defer(number: int, _: object) -> None:
        now = time.monotonic()
        if arrived and now - min(arrived.values()) > SAME_SIGNAL:
            raise KeyboardInterrupt(f"ended by {signal.Signals(number).name}")

        arrived.setdefault(number, now)

    handlers: dict[signal.Signals, Any] = {}
    for number in SIGNALS:
        # A handler that a library set in C is None, and could not be put back.
        if signal.getsignal(number) not in (None, signal.SIG_IGN):
            handlers[number] = signal.signal(number, defer)

    try:
        yield
    finally:
        for number, handler in handlers.items():
            if signal.getsignal(number) is defer:
                signal.signal(number, handler)

    for late in arrived:
        signal.raise_signal(late)


class Lead:
    """Makes every process repeat the calls of the first one.

    After a call that fails in every process, the engine is still usable. After one that fails in only some of
    them, the first process works alone with the weights that it holds, or, if they are sharded, not at all.
    """

    def __init__(self, engine: Any) -> None:
        self.processes: Processes = engine.processes
        self.processes.lead = self
        self.calling = False
        """Whether a call is running."""
        self.broken: str | None = None
        """Message of every later call, after a failure in some of the processes."""
        self._calls = 0
        self._objects: weakref.WeakValueDictionary[int, Any] = (
            weakref.WeakValueDictionary({0: engine})
        )
        """Engine, encoders and trainers that exist in every process, by the number of the call."""
        atexit.register(self.end)

    @_deferred_signals()
    def call(
        self,
        operation: Callable[..., Any],
        arguments: Sequence[Any],
        all_results: bool = False,
    ) -> list[Any]:
        """Run `operation(*arguments)` in every process.

        Returns the results of all processes; without `all_results`, None for those of the others.
        """
        if self.broken is not None:
            raise RunError(self.broken)

        self._calls += 1
        objects = dict(self._objects)
        call = (operation, arguments, all_results, self._calls, list(objects))
        try:
            content, tensors = packed(call, objects)
        except Exception as error:
            raise RunError(
                f"what other processes need cannot be sent to them: {error}; set `devices` and `nodes` to 1"
            ) from error

        self.calling = True
        try:
            for connection in self.processes.connections:
                send(connection, content)
            send_tensors(tensors)
            result = operation(*arguments)
            replies = [receive(other) for other in self.processes.connections]
        except Exception as error:
            self._settle(error)
            raise
        except BaseException:
            self._break("a call was ended before all processes had done it")
            raise
        finally:
            self.calling = False

        for rank, reply in enumerate(replies, 1):
            if reply.failure is not None:
                raise self._break(reply.failure)
            is_step = isinstance(result, StepResult)
            # The first process that got a signal is named.
            if reply.signal and is_step and result.interrupted is None:
                name = signal.Signals(reply.signal).name
                result = attrs.evolve(result, interrupted=f"{name} to process {rank}")

        if is_kept(result):
            self._objects[self._calls] = result
        return [result, *(reply.result for reply in replies)]

    def _settle(self, error: Exception) -> None:
        """After a failure here, wait for the other processes; if all have failed, they continue.

        Raises:
            RunError: if a process has ended.
        """
        connections = self.processes.connections
        deadline = time.monotonic() + PATIENCE
        silent = list(connections)
        failed = []
        try:
            while silent and time.monotonic() < deadline:
                # A closed connection counts as ready.
                ready = wait(silent, deadline - time.monotonic())
                for connection in [other for other in silent if other in ready]:
                    silent.remove(connection)
                    if receive(connection).failure is not None:
                        failed.append(connection)

            all_failed = len(failed) == len(connections)
            for connection in failed:
                send(connection, all_failed)
                # If not all have failed, that process ends instead of answering.
                receive(connection)
        except ENDED:
            rank = 1 + connections.index(connection)
            why = f"process {rank} has ended; if it left a message, that stands above"
            raise self._break(why) from error

        if not all_failed:
            self._break(f"this process has failed in the middle of a call ({error})")

    def _break(self, why: str) -> RunError:
        """Work alone from now on; return the error to raise."""
        if threading.current_thread() is threading.main_thread():
            # torchrun ends this process as soon as another has ended, and it must close the run before.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

        self.broken = f"{why}; {REMEDY}"
        error = RunError(self.broken)

        if self.processes.sharded:
            self.broken = f"the weights were spread over processes, and are gone with one: {self.broken}"
        else:
            for kept in self._objects.values():
                # A trainer needs all processes that began its stage.
                if not isinstance(kept, Trainer):
                    kept.processes = Processes()

        return error

    def end(self) -> None:
        """End the other processes; called when this one ends."""
        if self.broken is None:
            with suppress(OSError, RuntimeError):
                for connection in self.processes.connections:
                    send(connection, None)
                dist.destroy_process_group()


def is_kept(result: object) -> bool:
    """Whether the result of a call is an encoder or a trainer, which later calls refer to by its number."""
    return isinstance(result, PlacedEncoder | Trainer)


def serve(runtime: Any) -> None:
    """Build this process's engine, and repeat the calls of the first process until that one ends.

    Raises:
        RunError: if something fails in this process alone.
        SystemExit: if another process has ended without a message.
    """
    # Ctrl-C is for the first process, which decides when a run ends: after a step, and with its state saved.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    engine = runtime.build()
    processes: Processes = engine.processes
    (connection,) = processes.connections
    name = f"process {processes.rank}"
    engine.report_to(lambda message: print(f"{name}: {message}", file=sys.stderr))
    signals = [0]
    signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    objects: dict[int, Any] = {0: engine}
    while True:
        try:
            content = receive(connection)
        except ENDED:
            sys.exit(FAILED)

        if content is None:
            break

        try:
            call = unpacked(content, objects)
            operation, arguments, all_results, number, referred_to = call
            objects = {old: objects[old] for old in referred_to}
            result = operation(*arguments)
        except Exception as error:  # noqa: BLE001 - the first process decides how to go on
            failure = f"{name}: {type(error).__name__}: {error}"
            if isinstance(error, SentbedError):
                failure = f"{name}: {error}"
            _end_unless_all_fail(connection, failure, error)
            continue

        if is_kept(result):
            objects[number] = result
        value = result if all_results else None
        with suppress(*ENDED):
            send(connection, Reply(result=value, signal=signals[-1]))

        del call, arguments, result, value

    with suppress(RuntimeError):
        dist.destroy_process_group()


def _end_unless_all_fail(
    connection: Connection, failure: str, error: Exception
) -> None:
    """Return if the call has failed in every process.

    Raises:
        RunError: if the first process does not answer within `PATIENCE`.
        SystemExit: if another process has ended, or has not failed.
    """
    with suppress(*ENDED):
        send(connection, Reply(failure))
        if not connection.poll(PATIENCE):
            raise RunError(failure) from error
        if receive(connection):
            send(connection, None)
            return

    sys.exit(FAILED)
