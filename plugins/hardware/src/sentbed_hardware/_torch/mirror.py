"""The engine of several processes, as the first of them has it."""

from __future__ import annotations

import atexit
import math
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch.distributed as dist
from numpy.typing import NDArray
from sentbed import RunError
from sentbed import _signals as stopping
from sentbed.helpers import SIGNALS
from sentbed.protocols import (
    BuiltBackbone,
    Columns,
    Engine,
    Head,
    PlacedEncoder,
    Pooler,
    StepResult,
    TokenBatch,
    Trainer,
    Training,
)

from sentbed_hardware._torch import operations
from sentbed_hardware._torch.engine import TorchEncoder, TorchEngine
from sentbed_hardware._torch.messages import is_kept, packed, send
from sentbed_hardware._torch.processes import Processes, facts, here, join, lost
from sentbed_hardware._torch.sharding import in_place
from sentbed_hardware._torch.trainer import TorchTrainer
from sentbed_hardware.distributed import Distributed

PATIENCE = 20.0
"""Seconds that a process whose call has failed waits for the others to fail as well."""
REMEDY = "the states on disk are whole: go on with `sentbed run --resume DIRECTORY`"


def spread(engine: TorchEngine, parameters: Distributed) -> LeadEngine | TorchEngine:
    """Return the engine of all processes in the first one, this process's in each other.

    Raises:
        RuntimeUnavailableError: where several processes are asked for and this is the only one.
    """
    engine.processes = join(parameters, engine.device)
    engine.facts = {**engine.facts, **facts(engine.processes)}
    return LeadEngine(engine) if engine.processes.world > 1 and engine.processes.first else engine


class Lead:
    """Has every process do what the first one does.

    A call that fails in every process alike leaves them as they are. One that fails in some only has broken
    the engine: from then on the first process works alone, with the weights that it holds, or, where they are
    spread, not at all.
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
        """Have `operation(*arguments)` done by every process; return what it returns in this one."""
        self.require()
        self._calls += 1
        gone, self._gone = self._gone, []
        with _undivided():
            try:
                message = packed((operation, arguments, self._calls, gone), self._numbers)
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
                    self._break(f"this process has failed in the middle of a call ({error}); {REMEDY}")
                raise
            except BaseException:
                self._break(f"a call was ended before all processes had done it; {REMEDY}")
                raise
        if is_kept(result):
            self._numbers[id(result)] = self._calls
            weakref.finalize(result, self._forget, id(result), self._calls).atexit = False
        return result

    def require(self) -> None:
        """Raise `RunError` where the processes can do nothing together any more."""
        if self.broken is not None:
            raise RunError(self.broken)

    def alone(self) -> bool:
        """Whether this process is to work alone now. Raises `RunError` where it cannot."""
        if self.broken is not None and self.processes.sharded:
            raise RunError(f"the weights were spread over processes, and are gone with one: {self.broken}")
        return self.broken is not None

    def end(self) -> None:
        """Let the others end; called when this process ends."""
        if self.broken is None:
            with suppress(RuntimeError):
                send(*packed(None, {}))
                dist.destroy_process_group()

    def _forget(self, identity: int, number: int) -> None:
        del self._numbers[identity]
        self._gone.append(number)

    def _fail(self) -> RunError:
        """Return the error to raise where another process has gone; torchrun now ends this one as well."""
        if threading.current_thread() is threading.main_thread():
            # It has to close the run first; torchrun waits for 30 seconds before it ends it for good.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        who = "process 1" if self.processes.world == 2 else "another process"
        self._break(f"{who} has ended; if it left a message, that stands above; {REMEDY}")
        return RunError(str(self.broken))

    def _break(self, why: str) -> None:
        self.broken = why
        if not self.processes.sharded:
            self.engine.processes = Processes()


def agreed(processes: Processes, call: int) -> bool:
    """Whether a call that has failed here fails in every process."""
    names = [f"failed-{call}-{rank}" for rank in range(processes.world)]
    deadline = time.monotonic() + PATIENCE
    with suppress(RuntimeError):
        processes.store.set(names[processes.rank], "")
        # To wait with a time limit is an error of the store's, which it prints.
        while time.monotonic() < deadline:
            if processes.store.check(names):
                return True
            time.sleep(0.05)
    return False


@contextmanager
def _undivided() -> Iterator[None]:
    """Put signals off until the end of a call, which all processes do or none; a second one is not put off.

    Where the call fails, that ends the run, and the signal is dropped.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    asked: list[int] = []

    def put_back() -> None:
        for number, handler in before.items():
            # One that a library has set in C is None, and was left in its place.
            if signal.getsignal(number) is note:
                signal.signal(number, handler)

    heard = -math.inf

    def note(number: int, _: object) -> None:
        nonlocal heard
        now, earlier = time.monotonic(), heard
        if now - earlier < stopping.SAME:
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


class LeadEngine(Engine):
    """Many processes behind one engine; every process has a `TorchEngine` of its own."""

    def __init__(self, engine: TorchEngine) -> None:
        self.engine = engine
        self.lead = Lead(engine)
        self.device = engine.device

    @property
    def token_budget(self) -> int:
        """Tokens a batch: as many for each process as its device has alone."""
        return self.engine.token_budget * self.lead.processes.world

    @token_budget.setter
    def token_budget(self, tokens: int) -> None:
        self.engine.token_budget = max(1, tokens // self.lead.processes.world)

    def report_to(self, say: Callable[[str], None]) -> None:
        """Call `say` with what the first process has to say; the others say it on standard error."""
        self.engine.report_to(say)

    def describe(self) -> Mapping[str, Any]:
        """Return what the engine of one process says, with the number of processes and how they work."""
        return self.engine.describe()

    def counters(self) -> Mapping[str, float]:
        """Return the highest of each counter over the processes."""
        if self.lead.broken is not None:
            return self.engine.counters()
        found: Mapping[str, float] = self.lead.call(operations.counters, self.engine)
        return found

    def seed(self, seed: int) -> None:
        """Seed initialisation and dropout."""
        if self.lead.alone():
            self.engine.seed(seed)
        else:
            self.lead.call(operations.seed, self.engine, seed)

    def assemble(
        self, backbone: BuiltBackbone, pooler: Pooler, head: Head, saved: Path | None = None
    ) -> LeadEncoder:
        """Build pooler and head here, and put everything on the devices of all."""
        self.lead.alone()
        if backbone.dispatched:
            raise RunError(
                "the weights are spread over the devices of one process (`device_map`), and there are "
                'several; take `device_map` out, and set `parallel = "fsdp"` to spread them over processes'
            )
        return LeadEncoder(self.lead, self.engine.assemble(backbone, pooler, head, saved))

    def trainer(self, encoders: Mapping[str, Any], training: Training) -> LeadTrainer:
        """Prepare training of the encoders that `training.towers` names."""
        own = {name: encoder.own for name, encoder in encoders.items()}
        return LeadTrainer(self.lead, self.lead.call(operations.make_trainer, self.engine, own, training))


class LeadEncoder(PlacedEncoder):
    """An encoder that every process has; `own` is this process's."""

    def __init__(self, lead: Lead, own: TorchEncoder) -> None:
        self.lead = lead
        self.own = own
        self.width = own.width
        self.shares_prefix = own.shares_prefix and not lead.processes.sharded

    def encode(self, batch: TokenBatch) -> NDArray[np.float32]:
        """Return sentence vectors `(batch, width)`."""
        if self.lead.alone():
            return self.own.encode(batch)
        vectors: NDArray[np.float32] = self.lead.call(operations.encode, self.own, batch)
        return vectors

    def fingerprint(self) -> str | None:
        """Return a hash of weights and code between tokens and vector; None where weights are spread."""
        return None if self.lead.processes.sharded else self.own.fingerprint()

    def save(self, directory: Path) -> None:
        """Write the backbone in its own layout, and the weights of pooler and head beside it."""
        if self.lead.alone() or not self.lead.processes.sharded:
            self.own.save(directory)
            return
        with in_place(self.own.module, self.lead.call(operations.weights, self.own)):
            self.own.save(directory)


class LeadTrainer(Trainer):
    """A trainer that every process has; `own` is this process's."""

    def __init__(self, lead: Lead, own: TorchTrainer) -> None:
        self.lead = lead
        self.own = own

    def step(self, columns: Columns) -> StepResult:
        """Forward, loss, gradient, update."""
        result: StepResult = self.lead.call(type(self.own).step, self.own, columns)
        return result

    def gradients(self, columns: Columns) -> tuple[float, dict[str, NDArray[np.float32]]]:
        """Return loss and gradient of a batch by the name of each parameter; take no step."""
        result: tuple[float, dict[str, NDArray[np.float32]]] = self.lead.call(
            type(self.own).gradients, self.own, columns
        )
        return result

    def save(self, directory: Path) -> None:
        """Write everything that decides the steps to come into the empty `directory`."""
        self.lead.require()
        self.own.save(directory)

    def load(self, directory: Path) -> None:
        """Go on from what `save` wrote. Raises `ModelError` where it does not fit this trainer."""
        self.lead.require()
        self.own.load(directory)
        self.lead.call(operations.adopt, self.own, self.own.training)
