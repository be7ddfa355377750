"""Several JAX processes, one per machine, used through an engine in the first."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import torch
from numpy.typing import NDArray
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

from sentbed_hardware.engine_parts.calls_in_all_processes import Lead, highest_counters
from sentbed_hardware.engine_parts.process_group import Processes
from sentbed_hardware.engine_parts.process_group import join as join_torch

if TYPE_CHECKING:
    from sentbed_hardware._jax.engine import JaxEncoder, JaxEngine
    from sentbed_hardware._jax.trainer import JaxTrainer
    from sentbed_hardware.tpu import Tpu

ADDRESS = "jax"
"""Key under which the first process publishes the address of JAX's coordinator."""


def join(parameters: Tpu) -> Processes:
    """Return this process among those started by `torchrun`, and connect JAX's processes.

    Raises:
        RuntimeUnavailableError: if several processes are asked for and this is the only one.
    """
    processes = join_torch(parameters.machines, torch.device("cpu"))
    if processes.world == 1:
        return processes
    # One process's share of the weights is useless without the others.
    processes.sharded = True
    if processes.first:
        with socket.socket() as free:
            free.bind(("", 0))
            port = free.getsockname()[1]
        processes.store.set(ADDRESS, f"{os.environ['MASTER_ADDR']}:{port}")
    address = processes.store.get(ADDRESS).decode()
    if parameters.platform == "cpu":
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, processes.world, processes.rank)
    return processes


def lead(engine: JaxEngine) -> Engine:
    """Return the engine of all processes in the first one, and this process's own in the others."""
    several = engine.processes.world > 1 and engine.processes.first
    return LeadEngine(engine) if several else engine


class LeadEngine(Engine):
    """An engine that every process has; `own` is this process's. A call is one of all processes."""

    def __init__(self, own: JaxEngine) -> None:
        self.own = own
        self.lead = Lead(own)
        self.token_budget = own.token_budget

    def report_to(self, say: Callable[[str], None]) -> None:
        """Call `say` with the messages of the first process."""
        self.own.report_to(say)

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
        self, backbone: BuiltBackbone, pooler: Pooler, head: Head, saved: Path | None = None
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
        vectors: NDArray[np.float32] = self.lead.call(type(self.own).encode, self.own, batch)
        return vectors

    def transformed(self, fit: Any = None, on: Mapping[str, Any] | None = None) -> LeadEncoder:
        """Return this encoder with a fitted transform, or one that gives its input; weights are shared."""
        return LeadEncoder(self.lead, self.lead.call(type(self.own).transformed, self.own, fit, on))

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

    def gradients(self, columns: Columns) -> tuple[float, dict[str, NDArray[np.float32]]]:
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
        self.lead.call(type(self.own).go_on, self.own, self.own.read(directory))
