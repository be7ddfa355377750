"""Calls of the first process of an engine (`Lead`), repeated by every other process (`serve`)."""

from __future__ import annotations

import atexit
import math
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch.distributed as dist
from sentbed import RunError, SentbedError
from sentbed.helpers import SAME_SIGNAL, SIGNALS

from sentbed_hardware._common.process_messages import is_kept, packed, receive, send
from sentbed_hardware.engine_parts.process_group import Processes, here, lost

FAILED = 1
"""Exit code of a process that ends because another one did."""
PATIENCE = 20.0
"""Seconds that a process waits, after a failed call, for the others to fail as well."""
REMEDY = "the states on disk are whole: go on with `sentbed run --resume DIRECTORY`"


class Lead:
    """Has every process repeat the calls of the first one.

    A call that fails in every process leaves the engine usable. One that fails in only some of them breaks
    it: from then on the first process works alone, with the weights that it holds, or, if they are sharded,
    not at all.
    """

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.processes: Processes = engine.processes
        self.processes.together = self.call
        self.broken: str | None = None
        self._calls = 0
        self._numbers = {id(engine): 0}
        self._gone: list[int] = []
        atexit.register(self.end)

    def call(self, operation: Callable[..., Any], *arguments: Any) -> Any:
        """Run `operation(*arguments)` in every process, and return its result in this one."""
        self.require()
        self._calls += 1
        gone, self._gone = self._gone, []
        with _undivided():
            try:
                message = packed(
                    (operation, arguments, self._calls, gone), self._numbers
                )
            except Exception as error:
                self._gone += gone
                raise RunError(
                    f"what other processes are to be given cannot be sent to them: {error}; "
                    "set `devices` and `nodes` to 1"
                ) from error
            try:
                send(*message)
                result = here(operation, *arguments)
            except Exception as error:
                if lost(error):
                    raise self._fail() from error
                if not agreed(self.processes, self._calls):
                    self._break(
                        f"this process has failed in the middle of a call ({error}); {REMEDY}"
                    )
                raise
            except BaseException:
                self._break(
                    f"a call was ended before all processes had done it; {REMEDY}"
                )
                raise
        if is_kept(result):
            self._numbers[id(result)] = self._calls
            weakref.finalize(
                result, self._forget, id(result), self._calls
            ).atexit = False
        return result

    def require(self) -> None:
        """Raise `RunError` if the processes can no longer work together."""
        if self.broken is not None:
            raise RunError(self.broken)

    def alone(self) -> bool:
        """Return whether this process must work alone now. Raises `RunError` if it cannot."""
        if self.broken is not None and self.processes.sharded:
            raise RunError(
                f"the weights were spread over processes, and are gone with one: {self.broken}"
            )
        return self.broken is not None

    def end(self) -> None:
        """End the other processes; called when this one ends."""
        if self.broken is None:
            with suppress(RuntimeError):
                send(*packed(None, {}))
                dist.destroy_process_group()

    def _forget(self, identity: int, number: int) -> None:
        del self._numbers[identity]
        self._gone.append(number)

    def _fail(self) -> RunError:
        """Return the error to raise if another process has died; torchrun will now end this one as well."""
        if threading.current_thread() is threading.main_thread():
            # It must close the run first; torchrun waits for 30 seconds before it kills it.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        who = "process 1" if self.processes.world == 2 else "another process"
        self._break(
            f"{who} has ended; if it left a message, that stands above; {REMEDY}"
        )
        return RunError(str(self.broken))

    def _break(self, why: str) -> None:
        self.broken = why
        if not self.processes.sharded:
            self.engine.processes = Processes()


def agreed(processes: Processes, call: int) -> bool:
    """Return whether a call that has failed here fails in every process."""
    names = [f"failed-{call}-{rank}" for rank in range(processes.world)]
    deadline = time.monotonic() + PATIENCE
    with suppress(RuntimeError):
        processes.store.set(names[processes.rank], "")
        # Polled, because a wait with a time limit makes the store print an error.
        while time.monotonic() < deadline:
            if processes.store.check(names):
                return True
            time.sleep(0.05)
    return False


@contextmanager
def _undivided() -> Iterator[None]:
    """Defer signals until the end of a call, which all processes do or none; a second signal is not deferred.

    If the call fails, the failure ends the run, and the signal is dropped.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    asked: list[int] = []

    def put_back() -> None:
        for number, handler in before.items():
            # A handler that a library set in C is None, and was not replaced.
            if signal.getsignal(number) is note:
                signal.signal(number, handler)

    heard = -math.inf

    def note(number: int, _: object) -> None:
        nonlocal heard
        now, earlier = time.monotonic(), heard
        if now - earlier < SAME_SIGNAL:
            return
        heard = now
        asked.append(number)
        if len(asked) > 1:
            put_back()
            while asked:
                signal.raise_signal(asked.pop(0))

    for number, handler in before.items():
        if handler is not None and handler is not signal.SIG_IGN:
            signal.signal(number, note)
    try:
        yield
    finally:
        put_back()
    while asked:
        signal.raise_signal(asked.pop(0))


def highest_counters(engine: Any) -> dict[str, float]:
    """Return the maximum of each counter over the processes, in the first process."""
    found = engine.processes.collect(dict(engine.counters()))
    names = dict.fromkeys(name for of in found or () for name in of)
    return {name: max(of.get(name, 0.0) for of in found or ()) for name in names}


def serve(runtime: Any) -> None:
    """Build this process's engine and run the calls of the first process on it until that one ends.

    Raises:
        RunError: if something fails in this process alone.
        SystemExit: if another process has ended without a message.
    """
    # Ctrl-C is for the first process, which decides when a run ends: after a step, and with its state saved.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    engine = runtime.build()
    processes = engine.processes
    engine.report_to(
        lambda message: print(f"process {processes.rank}: {message}", file=sys.stderr)
    )
    signal.signal(signal.SIGTERM, lambda number, _: setattr(processes, "asked", number))
    objects: dict[int, Any] = {0: engine}
    while True:
        try:
            message = receive(objects)
        except Exception as error:
            if lost(error):
                sys.exit(FAILED)
            if isinstance(error, SentbedError):
                raise
            raise RunError(
                f"process {processes.rank} cannot read what the first one has sent "
                f"({type(error).__name__}: {error}); install the same versions on all machines"
            ) from error
        if message is None:
            break
        operation, arguments, number, gone = message
        for one in gone:
            objects.pop(one, None)
        try:
            result = operation(*arguments)
        except Exception as error:
            if lost(error):
                sys.exit(FAILED)
            if not agreed(processes, number):
                what = (
                    str(error)
                    if isinstance(error, SentbedError)
                    else f"{type(error).__name__}: {error}"
                )
                raise RunError(f"process {processes.rank}: {what}") from error
            continue
        if is_kept(result):
            objects[number] = result
        del message, arguments, result
    with suppress(RuntimeError):
        dist.destroy_process_group()
