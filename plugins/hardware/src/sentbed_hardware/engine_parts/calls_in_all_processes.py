"""Calls of the first process to its engine, which the other processes (`serve`) repeat.

The first process broadcasts a call (`Lead`), every process runs it, and all meet at a barrier. A call that fails
in any process ends the run.
"""

from __future__ import annotations

import atexit
import io
import os
import pickle
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import wraps
from typing import Any, TypeVar, cast

import attrs
import torch
import torch.distributed as dist
from sentbed import RunError
from sentbed.protocols import PlacedEncoder, Trainer
from torch import Tensor, nn

from sentbed_hardware.engine_parts.process_group import WITHIN_A_CALL, Processes

Method = TypeVar("Method", bound=Callable[..., Any])

FAILED = 1
"""Exit code of a process that ends because another process has ended or failed."""
PATIENCE = timedelta(seconds=20)
"""Time that a process in which a call has failed waits at the barrier for the others."""
REMEDY = (
    "the states on disk are whole: go on with `sentbed run RECIPE --resume DIRECTORY`"
)


@attrs.frozen
class Call:
    """A call of the first process to its engine, encoders or trainers."""

    operation: Callable[..., Any]
    arguments: Sequence[Any]
    number: int
    """Number of the encoder or trainer that the call may return."""
    referred_to: Sequence[int]
    """Numbers of the objects that the first process still has."""


@attrs.frozen
class Outcome:
    """How a call has ended in another process than the first."""

    result: Any = None
    """Result of the call; None if it is an encoder or a trainer."""
    failure: str | None = None
    """Message of the error that the call raised; None if it succeeded."""


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


class Lead:
    """The side of the first process: sends its calls to the other processes, and collects their outcomes."""

    def __init__(self, engine: Any) -> None:
        self.processes: Processes = engine.processes
        self.processes.lead = self
        self.calling = False
        """Whether a call is running."""
        self.broken = False
        """Whether a call has failed or was interrupted, so that the processes are no longer in step."""
        self._calls = 0
        self._objects: weakref.WeakValueDictionary[int, Any] = (
            weakref.WeakValueDictionary({0: engine})
        )
        """Number of a call -> the encoder or trainer that it returned in every process. 0 is the engine."""
        atexit.register(self.end)

    def call(
        self, operation: Callable[..., Any], arguments: Sequence[Any]
    ) -> list[Any]:
        """Run `operation(*arguments)` in every process, and return the results in rank order.

        Raises:
            RunError: if a process has ended, if the call has failed in another process, or after such a failure.
        """
        if self.broken:
            raise RunError(f"the processes have ended after a failure; {REMEDY}")

        self._calls += 1
        objects = dict(self._objects)
        error: Exception | None = None
        result = None
        self.broken = self.calling = True

        try:
            _send(Call(operation, arguments, self._calls, list(objects)), objects)
            result = operation(*arguments)
        except Exception as raised:  # noqa: BLE001 - it is raised below, if no other process has ended
            error = raised
        finally:
            self.calling = False

        outcomes = self._outcomes(error)
        if error is not None:
            raise error

        for outcome in outcomes:
            if outcome.failure is not None:
                raise RunError(f"{outcome.failure}; {REMEDY}")

        self.broken = False
        if is_shared_object(result):
            self._objects[self._calls] = result
        return [result, *(outcome.result for outcome in outcomes)]

    def _outcomes(self, error: Exception | None) -> list[Outcome]:
        """Return the outcomes of a call in the other processes; `error` is the error of the call in this one.

        Raises:
            RunError: if a process has ended or does not come to the end of the call.
        """
        outcomes: list[Any] = [None] * self.processes.world
        limit = WITHIN_A_CALL
        if error is not None:
            limit = PATIENCE

        try:
            dist.monitored_barrier(timeout=limit)
            dist.gather_object(None, outcomes)
        except RuntimeError as missing:
            if threading.current_thread() is threading.main_thread():
                # torchrun sends SIGTERM to the other processes, but this one must finish the run.
                signal.signal(signal.SIGTERM, signal.SIG_IGN)

            why = str(error or missing).splitlines()[0]
            raise RunError(
                f"a process has ended or failed ({why}); {REMEDY}"
            ) from error

        return outcomes[1:]

    def end(self) -> None:
        """End the other processes. This is called when the first process ends."""
        if not self.broken:
            with suppress(RuntimeError):
                _send(None, {})
                dist.destroy_process_group()


def is_shared_object(result: object) -> bool:
    """Return whether the result of a call is an encoder or a trainer, to which later calls may refer."""
    return isinstance(result, PlacedEncoder | Trainer)


def serve(runtime: Any) -> None:
    """Build this process's engine, and repeat the calls of the first process until the first process ends.

    Raises:
        SystemExit: if the first process has ended without saying so, or a call failed in only some processes.
    """
    # Signals go to all processes. Only the first one reacts: it ends the run after a step and saves the state.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    engine = runtime.build()
    name = f"process {engine.processes.rank}"
    engine.report_to(lambda message: print(f"{name}: {message}", file=sys.stderr))
    objects: dict[int, Any] = {0: engine}
    while (call := _received(objects)) is not None:
        objects = {number: objects[number] for number in call.referred_to}
        try:
            result = call.operation(*call.arguments)
        except Exception as error:  # noqa: BLE001 - the first process ends the run
            _report(Outcome(failure=f"{name}: {error}"))
            continue

        if is_shared_object(result):
            objects[call.number] = result
            result = None
        _report(Outcome(result))
        # Large tensors must not stay in memory until the next call.
        del call, result

    with suppress(RuntimeError):
        dist.destroy_process_group()


def _report(outcome: Outcome) -> None:
    """Send the outcome of a call to the first process.

    Raises:
        SystemExit: if the first process has ended.
    """
    # If the call has failed in this process alone, the first one waits for it in the middle of the call.
    end = threading.Timer(PATIENCE.total_seconds(), _end, [outcome.failure])
    end.daemon = True
    if outcome.failure is not None:
        end.start()

    try:
        dist.monitored_barrier(timeout=WITHIN_A_CALL)
        dist.gather_object(outcome)
    except RuntimeError:
        sys.exit(FAILED)
    finally:
        end.cancel()


def _end(failure: str) -> None:
    """Print why a call has failed, and end this process, in whatever operation its main thread is."""
    print(f"error: {failure}", file=sys.stderr, flush=True)
    os._exit(FAILED)


class _CallPickler(pickle.Pickler):
    """Pickles a call. Tensors, and objects that exist in every process, are replaced by numbers.

    `tensors` are then sent by themselves, in the order of their numbers, so that no copy of them is made.
    """

    def __init__(self, file: io.BytesIO, objects: Mapping[int, Any]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.tensors: list[Tensor] = []
        self.places: dict[int, tuple[str, int]] = {}
        for number, value in objects.items():
            self.places[id(value)] = "object", number

    def persistent_id(self, value: Any) -> tuple[str, int] | None:
        is_tensor = type(value) in (Tensor, nn.Parameter)
        if is_tensor and not value.is_meta and id(value) not in self.places:
            self.places[id(value)] = "tensor", len(self.tensors)
            self.tensors.append(value)

        return self.places.get(id(value))


class _CallUnpickler(pickle.Unpickler):
    """Unpickles a call. This process's objects and tensors take the place of the numbers."""

    def __init__(
        self,
        file: io.BytesIO,
        objects: Mapping[int, Any],
        tensors: list[Tensor],
    ) -> None:
        super().__init__(file)
        self.values: dict[str, Any] = {"object": objects, "tensor": tensors}

    def persistent_load(self, place: tuple[str, int]) -> Any:
        kind, number = place
        return self.values[kind][number]


def _send(call: Call | None, objects: Mapping[int, Any]) -> None:
    """Broadcast a call; None ends the other processes. `objects` exist in every process, by number."""
    body = io.BytesIO()
    pickler = _CallPickler(body, objects)
    pickler.dump(call)
    kinds = []
    for tensor in pickler.tensors:
        kind = type(tensor), tuple(tensor.shape), tensor.dtype, tensor.requires_grad
        kinds.append(kind)

    dist.broadcast_object_list([kinds, body.getvalue()])
    for tensor in pickler.tensors:
        _broadcast(tensor.detach().cpu().contiguous())


def _received(objects: Mapping[int, Any]) -> Call | None:
    """Return the next call of the first process.

    Raises:
        SystemExit: if the first process has ended without saying so.
    """
    message: list[Any] = [None, None]
    try:
        dist.broadcast_object_list(message)
    except RuntimeError:
        sys.exit(FAILED)

    kinds, body = message
    tensors: list[Tensor] = []
    for kind, shape, dtype, requires_grad in kinds:
        tensor = torch.empty(shape, dtype=dtype)
        _broadcast(tensor)
        if kind is nn.Parameter:
            tensor = nn.Parameter(tensor, requires_grad)
        tensors.append(tensor.requires_grad_(requires_grad))

    call: Call | None = _CallUnpickler(io.BytesIO(body), objects, tensors).load()
    return call


def _broadcast(tensor: Tensor) -> None:
    """Copy a host tensor of the first process into `tensor` of every other process."""
    if tensor.numel():
        dist.broadcast(tensor.reshape(-1).view(torch.uint8), 0)
