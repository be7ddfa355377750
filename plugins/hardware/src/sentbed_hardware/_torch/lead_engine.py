"""The engine of several processes, for use in the first of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sentbed import RunError
from sentbed.protocols import (
    BuiltBackbone,
    Columns,
    Head,
    PlacedEncoder,
    Pooler,
    StepResult,
    TokenBatch,
    Trainer,
    Training,
    TrainingEngine,
)

from sentbed_hardware._torch import lead_engine_calls
from sentbed_hardware._torch.engine import TorchEngine
from sentbed_hardware._torch.placed_encoder import TorchEncoder
from sentbed_hardware._torch.sharding import in_place
from sentbed_hardware._torch.trainer import TorchTrainer
from sentbed_hardware.distributed_base import Distributed
from sentbed_hardware.engine_parts.calls_in_all_processes import Lead, highest_counters
from sentbed_hardware.engine_parts.process_group import facts, join


def spread(engine: TorchEngine, parameters: Distributed) -> LeadEngine | TorchEngine:
    """Return the engine of all processes in the first one, and this process's own in the others.

    Raises:
        RuntimeUnavailableError: if several processes are asked for and this is the only one.
    """
    engine.processes = join(
        engine.device,
        asked_for=parameters.devices * parameters.nodes,
        sharded=parameters.parallel == "fsdp",
        local_gradient=parameters.gradient == "local",
    )
    engine.facts = {**engine.facts, **facts(engine.processes)}
    return (
        LeadEngine(engine)
        if engine.processes.world > 1 and engine.processes.first
        else engine
    )


class LeadEngine(TrainingEngine):
    """An engine of many processes, each with its own `TorchEngine`."""

    def __init__(self, engine: TorchEngine) -> None:
        self.engine = engine
        self.lead = Lead(engine)
        self.device = engine.device

    @property
    def token_budget(self) -> int:
        """Tokens per batch: as many for each process as its device has alone."""
        return self.engine.token_budget * self.lead.processes.world

    @token_budget.setter
    def token_budget(self, tokens: int) -> None:
        self.engine.token_budget = max(1, tokens // self.lead.processes.world)

    def report_to(self, say: Callable[[str], None]) -> None:
        """Call `say` with the messages of the first process; the others write theirs to standard error."""
        self.engine.report_to(say)

    def describe(self) -> Mapping[str, Any]:
        """Return the description of one process's engine, with the number of processes and their mode."""
        return self.engine.describe()

    def counters(self) -> Mapping[str, float]:
        """Return the maximum of each counter over the processes."""
        if self.lead.broken is not None:
            return self.engine.counters()
        found: Mapping[str, float] = self.lead.call(highest_counters, self.engine)
        return found

    def seed(self, seed: int) -> None:
        """Seed initialisation and dropout."""
        if self.lead.alone():
            self.engine.seed(seed)
        else:
            self.lead.call(type(self.engine).seed, self.engine, seed)

    def assemble(
        self,
        backbone: BuiltBackbone,
        pooler: Pooler,
        head: Head,
        saved: Path | None = None,
    ) -> LeadEncoder:
        """Build pooler and head here, and put everything on the devices of all."""
        self.lead.alone()
        if backbone.dispatched:
            raise RunError(
                "the weights are spread over the devices of one process (`device_map`), and there are "
                'several; take `device_map` out, and set `parallel = "fsdp"` to spread them over processes'
            )
        return LeadEncoder(
            self.lead, self.engine.assemble(backbone, pooler, head, saved)
        )

    def trainer(self, encoders: Mapping[str, Any], training: Training) -> LeadTrainer:
        """Prepare training of the encoders that `training.towers` names."""
        own = {name: encoder.own for name, encoder in encoders.items()}
        return LeadTrainer(
            self.lead,
            self.lead.call(lead_engine_calls.make_trainer, self.engine, own, training),
        )


class LeadEncoder(PlacedEncoder):
    """An encoder that every process has; `own` is this process's."""

    def __init__(self, lead: Lead, own: TorchEncoder) -> None:
        self.lead = lead
        self.own = own
        self.width, self.trained_width = own.width, own.trained_width
        self.fitted_on = own.fitted_on
        self.parameter_counts = own.parameter_counts
        self.shares_prefix = own.shares_prefix and not lead.processes.sharded

    def encode(self, batch: TokenBatch) -> NDArray[np.float32]:
        """Return sentence vectors `(batch, width)`."""
        if self.lead.alone():
            return self.own.encode(batch)
        vectors: NDArray[np.float32] = self.lead.call(
            lead_engine_calls.encode, self.own, batch
        )
        return vectors

    def transformed(
        self, fit: Any = None, on: Mapping[str, Any] | None = None
    ) -> LeadEncoder:
        """Return this encoder with a fitted transform, or one that gives its input; weights are shared."""
        if self.lead.alone():
            return LeadEncoder(self.lead, self.own.transformed(fit, on))
        return LeadEncoder(
            self.lead, self.lead.call(type(self.own).transformed, self.own, fit, on)
        )

    def broken_weight(self) -> str | None:
        """Return the name of a weight that is NaN or infinite in any process, or None if there is none."""
        if self.lead.alone() or not self.lead.processes.sharded:
            return self.own.broken_weight()
        names: list[str | None] = self.lead.call(
            lead_engine_calls.broken_weights, self.own
        )
        return next(filter(None, names), None)

    def fingerprint(self) -> str | None:
        """Return a hash of weights and code between tokens and vector; None if weights are spread."""
        return None if self.lead.processes.sharded else self.own.fingerprint()

    def save(self, directory: Path) -> None:
        """Write the backbone in its own layout, and the weights of pooler and head beside it."""
        if self.lead.alone() or not self.lead.processes.sharded:
            self.own.save(directory)
            return
        with in_place(
            self.own.module, self.lead.call(lead_engine_calls.weights, self.own)
        ):
            self.own.save(directory)


class LeadTrainer(Trainer):
    """A trainer that every process has; `own` is this process's."""

    def __init__(self, lead: Lead, own: TorchTrainer) -> None:
        self.lead = lead
        self.own = own

    def step(self, columns: Columns) -> StepResult:
        """Take a training step: forward, loss, gradient, update."""
        result: StepResult = self.lead.call(type(self.own).step, self.own, columns)
        return result

    def gradients(
        self, columns: Columns
    ) -> tuple[float, dict[str, NDArray[np.float32]]]:
        """Return loss and gradient of a batch by the name of each parameter; take no step."""
        result: tuple[float, dict[str, NDArray[np.float32]]] = self.lead.call(
            type(self.own).gradients, self.own, columns
        )
        return result

    def swap_average(self) -> None:
        """Exchange the encoders' trained weights with their moving average."""
        self.lead.call(type(self.own).swap_average, self.own)

    def save(self, directory: Path) -> None:
        """Write everything that determines later steps into the empty `directory`."""
        self.lead.require()
        self.own.save(directory)

    def load(self, directory: Path) -> None:
        """Restore what `save` wrote. Raises `ModelError` if it does not fit this trainer."""
        self.lead.require()
        self.own.load(directory)
        self.lead.call(lead_engine_calls.adopt, self.own, self.own.training)
