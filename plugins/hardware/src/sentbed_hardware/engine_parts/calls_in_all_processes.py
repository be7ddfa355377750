"""Remote calls: the other processes (`serve`) repeat the calls of the first process (`Lead`) to its engine.

The first process sends a call to the others, every process runs it, and the others send a `Reply`. If another
process has ended, the first one notices it by the closed connection. If the call has failed there, the reply says
so. Errors of collective operations (gather, sum, broadcast) need not be interpreted.
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
"""Exit code of a process that ends because another process has ended or failed."""
PATIENCE = 20.0
"""Seconds that a process waits, after a call has failed in it, for the same call to fail in the others."""
REMEDY = (
    "the states on disk are whole: go on with `sentbed run RECIPE --resume DIRECTORY`"
)


@attrs.frozen
class Reply:
    """The answer of another process to the first process after a call."""

    failure: str | None = None
    """Message of the error that the call raised; None if it succeeded."""
    result: Any = None
    """Result of the call, if the first process has requested it."""
    signal: int = 0
    """Number of the last signal that the replying process got, such as SIGTERM; 0 for none."""


def in_all_processes(method: Method) -> Method:
    """Decorate a method, so that every process runs it when the first process calls it.

    The method's object must have the attribute `processes` and exist in every process. It is an engine, or an
    encoder or trainer that was returned by a decorated method.
    """

    @wraps(method)
    def of_all(self: Any, *arguments: Any) -> Any:
        if self.processes.leads:
            return self.processes.lead.call(of_all, (self, *arguments))[0]

        return method(self, *arguments)

    return cast("Method", of_all)


@contextmanager
def _deferred_signals() -> Iterator[None]:
    """Defer signals to the end of a call, since either all processes or none must complete it.

    A second signal more than `SAME_SIGNAL` seconds after the first one raises `KeyboardInterrupt` immediately.
    If the call fails, deferred signals are dropped, since the failure ends the run.
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
        # A handler that was set in C appears as None, and could not be restored.
        if signal.getsignal(number) not in (None, signal.SIG_IGN):
            handlers[number] = signal.signal(number, defer)

    try:
        yield
    finally:
        for number, handler in handlers.items():
            if signal.getsignal(number) is defer:
                signal.signal(number, handler)

    for deferred in arrived:
        signal.raise_signal(deferred)


class Lead:
    """The side of the first process: sends its calls to the other processes, and collects their replies.

    If a call fails in every process, the engine can still be used. If it fails in only some processes, the
    first process goes on alone with its weights. With sharded weights, it cannot go on.
    """

    def __init__(self, engine: Any) -> None:
        self.processes: Processes = engine.processes
        self.processes.lead = self
        self.calling = False
        """Whether a call is running."""
        self.broken: str | None = None
        """After a failure in only some of the processes: the error message of all later calls. None before."""
        self._calls = 0
        self._objects: weakref.WeakValueDictionary[int, Any] = (
            weakref.WeakValueDictionary({0: engine})
        )
        """Number of a call -> the encoder or trainer that it returned in every process. 0 is the engine."""
        atexit.register(self.end)

    @_deferred_signals()
    def call(
        self,
        operation: Callable[..., Any],
        arguments: Sequence[Any],
        all_results: bool = False,
    ) -> list[Any]:
        """Run `operation(*arguments)` in every process, and return the results in rank order.

        Without `all_results`, the results of the other processes are None.

        Raises:
            RunError: if the call cannot be sent, or failed in only some of the processes.
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
                f"the arguments of a call cannot be sent to the other processes: {error}; set `devices` and "
                "`nodes` to 1"
            ) from error

        self.calling = True
        try:
            for connection in self.processes.connections:
                send(connection, content)
            send_tensors(tensors)
            result = operation(*arguments)
            replies = [receive(other) for other in self.processes.connections]
        except Exception as error:
            self._wait_for_failures(error)
            raise
        except BaseException:
            self._stop_calls(
                "a call was interrupted before all processes had completed it"
            )
            raise
        finally:
            self.calling = False

        for rank, reply in enumerate(replies, 1):
            if reply.failure is not None:
                raise self._stop_calls(reply.failure)
            is_step = isinstance(result, StepResult)
            # If several processes got a signal, the message names the one with the lowest rank.
            if reply.signal and is_step and result.interrupted is None:
                name = signal.Signals(reply.signal).name
                result = attrs.evolve(result, interrupted=f"{name} to process {rank}")

        if is_shared_object(result):
            self._objects[self._calls] = result
        return [result, *(reply.result for reply in replies)]

    def _wait_for_failures(self, error: Exception) -> None:
        """After a call has failed in this process, wait for it to fail in the others.

        If it fails in all of them, tell them to go on. Else stop all later calls.

        Raises:
            RunError: if a process has ended.
        """
        connections = self.processes.connections
        deadline = time.monotonic() + PATIENCE
        silent = list(connections)
        failed = []
        try:
            while silent and time.monotonic() < deadline:
                # `wait` also returns closed connections; `receive` then raises one of `ENDED`.
                ready = wait(silent, deadline - time.monotonic())
                for connection in [other for other in silent if other in ready]:
                    silent.remove(connection)
                    if receive(connection).failure is not None:
                        failed.append(connection)

            all_failed = len(failed) == len(connections)
            for connection in failed:
                send(connection, all_failed)
                # The process confirms that it goes on. If not all have failed, it ends instead.
                receive(connection)
        except ENDED:
            rank = 1 + connections.index(connection)
            why = f"process {rank} has ended; if it left a message, that stands above"
            raise self._stop_calls(why) from error

        if not all_failed:
            why = f"this process has failed in the middle of a call ({error})"
            self._stop_calls(why)

    def _stop_calls(self, why: str) -> RunError:
        """Stop sending calls to the other processes, and return the error to raise."""
        if threading.current_thread() is threading.main_thread():
            # When a process has ended, torchrun sends SIGTERM to the others, but this one must finish the run.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

        self.broken = f"{why}; {REMEDY}"
        error = RunError(self.broken)

        if self.processes.sharded:
            self.broken = f"the weights were spread over processes, and one of these has ended: {self.broken}"
            return error

        for value in self._objects.values():
            # Engine and encoders work in this process alone, a trainer needs all processes of its stage.
            if not isinstance(value, Trainer):
                value.processes = Processes()

        return error

    def end(self) -> None:
        """End the other processes. This is called when the first process ends."""
        if self.broken is None:
            with suppress(OSError, RuntimeError):
                for connection in self.processes.connections:
                    send(connection, None)
                dist.destroy_process_group()


def is_shared_object(result: object) -> bool:
    """Return whether the result of a call is an encoder or a trainer, to which later calls may refer."""
    return isinstance(result, PlacedEncoder | Trainer)


def serve(runtime: Any) -> None:
    """Build this process's engine, and repeat the calls of the first process until the first process ends.

    Raises:
        RunError: if a call fails in this process alone.
        SystemExit: if the first process has ended without saying so, or a call failed in only some processes.
    """
    # Ctrl-C goes to all processes. Only the first one reacts: it ends the run after a step and saves the state.
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
        except Exception as error:  # noqa: BLE001 - the first process decides whether all go on
            failure = f"{name}: {type(error).__name__}: {error}"
            if isinstance(error, SentbedError):
                failure = f"{name}: {error}"
            _end_unless_all_fail(connection, failure, error)
            continue

        if is_shared_object(result):
            objects[number] = result
        value = result if all_results else None
        with suppress(*ENDED):
            send(connection, Reply(result=value, signal=signals[-1]))

        # Large tensors must not stay in memory until the next call.
        del call, arguments, result, value

    with suppress(RuntimeError):
        dist.destroy_process_group()


def _end_unless_all_fail(
    connection: Connection,
    failure: str,
    error: Exception,
) -> None:
    """Report the failure of a call to the first process, and return if the call has failed in every process.

    Raises:
        RunError: if the first process does not answer within `PATIENCE` seconds.
        SystemExit: if the call has not failed in every process, or the first process has ended.
    """
    with suppress(*ENDED):
        send(connection, Reply(failure))
        if not connection.poll(PATIENCE):
            raise RunError(failure) from error
        if receive(connection):
            send(connection, None)
            return

    sys.exit(FAILED)
