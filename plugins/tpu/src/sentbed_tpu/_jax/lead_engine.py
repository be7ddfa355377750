"""Several JAX processes, one per machine, used through an engine in the first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
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
from sentbed_hardware.engine_parts.calls_in_all_processes import Lead, highest_counters

from sentbed_tpu._jax.encoder import JaxEncoder
from sentbed_tpu._jax.engine import JaxEngine
from sentbed_tpu._jax.trainer import JaxTrainer


class LeadEngine(TrainingEngine):
    """An engine that every process has; `own` is this process's. A call is one of all processes."""

    def __init__(self, own: JaxEngine) -> None:
        self.own = own
        self.lead = Lead(own)
        self.token_budget = own.token_budget

    def describe(self) -> Mapping[str, Any]:
        """Return platform, devices, precision and processes."""
        return self.own.describe()

    def counters(self) -> Mapping[str, float]:
        """Return the maximum of each counter over the processes."""
        if self.lead.broken is not None:
            return self.own.counters()
        found: Mapping[str, float] = self.lead.call(highest_counters, self.own)
        return found

    def seed(self, seed: int) -> None:
        """Seed initialisation and dropout."""
        self.lead.call(type(self.own).seed, self.own, seed)

    def assemble(
        self,
        backbone: BuiltBackbone,
        pooler: Pooler,
        head: Head,
        saved: Path | None = None,
    ) -> LeadEncoder:
        """Build pooler and head here, and put everything on the devices of all."""
        self.lead.alone()
        return LeadEncoder(self.lead, self.own.assemble(backbone, pooler, head, saved))

    def trainer(self, encoders: Mapping[str, Any], training: Training) -> LeadTrainer:
        """Prepare training of the encoders that `training.towers` names."""
        own = {name: encoder.own for name, encoder in encoders.items()}
        return LeadTrainer(self.lead, self.own.trainer(own, training))


class LeadEncoder(PlacedEncoder):
    """An encoder with arrays on the devices of all processes; `own` is this process's."""

    def __init__(self, lead: Lead, own: JaxEncoder) -> None:
        self.lead, self.own = lead, own
        self.width, self.trained_width = own.width, own.trained_width
        self.fitted_on = own.fitted_on
        self.parameter_counts = own.parameter_counts

    def plan(self, lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Yield the texts of each batch, given their lengths in tokens."""
        return self.own.plan(lengths)

    def encode(self, batch: TokenBatch) -> NDArray[np.float32]:
        """Return sentence vectors `(batch, width)`."""
        vectors: NDArray[np.float32] = self.lead.call(
            type(self.own).encode, self.own, batch
        )
        return vectors

    def transformed(
        self, fit: Any = None, on: Mapping[str, Any] | None = None
    ) -> LeadEncoder:
        """Return this encoder with a fitted transform, or one that gives its input; weights are shared."""
        return LeadEncoder(
            self.lead, self.lead.call(type(self.own).transformed, self.own, fit, on)
        )

    def fingerprint(self) -> str | None:
        """Return a hash of weights and code between tokens and vector."""
        self.lead.call(type(self.own).to_host, self.own)
        return self.own.hash()

    def save(self, directory: Path) -> None:
        """Write the backbone in its own layout, and the weights of pooler and head beside it."""
        self.lead.call(type(self.own).to_host, self.own)
        self.own.write(directory)


class LeadTrainer(Trainer):
    """A trainer that every process has; `own` is this process's."""

    def __init__(self, lead: Lead, own: JaxTrainer) -> None:
        self.lead, self.own = lead, own

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
        self.own.write(directory, self.lead.call(type(self.own).arrays, self.own))

    def load(self, directory: Path) -> None:
        """Restore what `save` wrote. Raises `ModelError` if it does not fit this trainer."""
        self.lead.call(type(self.own).restore, self.own, self.own.read(directory))
