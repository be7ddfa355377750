"""The engine on PyTorch: it puts modules on the device, and creates encoders and trainers."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from sentbed import RunError
from sentbed.protocols import BuiltBackbone, Head, Pooler, Training, TrainingEngine

from sentbed_hardware._torch.placed_encoder import TorchEncoder
from sentbed_hardware._torch.placement import BatchSize, Placement, Say
from sentbed_hardware._torch.sharding import shard
from sentbed_hardware._torch.trainer import TorchTrainer
from sentbed_hardware.distributed_base import Distributed
from sentbed_hardware.engine_parts.calls_in_all_processes import (
    Lead,
    in_all_processes,
)
from sentbed_hardware.engine_parts.cpu_defaults import TOKEN_BUDGET
from sentbed_hardware.engine_parts.encoder_module import EncoderModule, assembled
from sentbed_hardware.engine_parts.process_group import (
    Processes,
    facts,
    join,
)


def spread(engine: TorchEngine, parameters: Distributed) -> TorchEngine:
    """Connect an engine with the engines of the run's other processes, and return it.

    The other processes then repeat each call that the first process makes to its engine, encoders and trainers.
    In a run in one process, nothing is connected.

    Raises:
        RuntimeUnavailableError: if the recipe sets several processes and this is the only one.
    """
    engine.processes = join(
        engine.device,
        asked_for=parameters.devices,
        sharded=parameters.parallel == "fsdp",
    )
    engine.facts = {**engine.facts, **facts(engine.processes)}
    if engine.processes.world > 1 and engine.processes.first:
        # So far, the budget is that of one device. A batch is shared by all processes.
        engine.token_budget *= engine.processes.world
        Lead(engine)

    return engine


class TorchEngine(TrainingEngine):
    """An engine on one device, or on one device of each process. `describe` returns `facts`."""

    def __init__(
        self,
        device: torch.device,
        dtype: torch.dtype,
        facts: Mapping[str, Any],
        token_budget: int = TOKEN_BUDGET,
    ) -> None:
        self.device = device
        self.placement = Placement(device, dtype)
        self.batch_size = BatchSize(token_budget)
        self.processes = Processes()
        self.facts = facts
        self.report: Say = logging.getLogger("sentbed").warning

    @property
    def token_budget(self) -> int:
        """Largest number of tokens of a batch for encoding, which all processes share."""
        return self.batch_size.token_budget

    @token_budget.setter
    def token_budget(self, tokens: int) -> None:
        self.batch_size.token_budget = tokens

    def report_to(self, say: Say) -> None:
        """Send later messages for the user to the function `say`."""
        self.report = say

    def say(self, message: str) -> None:
        """Show the user a message."""
        self.report(message)

    def describe(self) -> Mapping[str, Any]:
        """Return facts about the engine, such as device, precision and number of threads."""
        return self.facts

    def counters(self) -> Mapping[str, float]:
        """Return the GPU's peak memory in GiB, in this process."""
        if self.device.type != "cuda":
            return {}

        return {
            "device_memory_gib": torch.cuda.max_memory_allocated(self.device) / 2**30
        }

    @in_all_processes
    def seed(self, seed: int) -> None:
        """Seed torch's random generators, which initialise weights and draw dropout."""
        torch.manual_seed(seed)

    def assemble(
        self,
        backbone: BuiltBackbone,
        pooler: Pooler,
        head: Head,
        saved: Path | None = None,
    ) -> TorchEncoder:
        """Build pooler and head, and put the encoder on the device, in every process.

        Raises:
            RunError: if the weights do not fit into memory, or are spread over the devices of one process and
                there are several processes.
        """
        if backbone.dispatched and self.processes.world > 1:
            raise RunError(
                "`device_map` spreads the weights over the devices of one process, and this run has several "
                'processes; take `device_map` out, and set `parallel = "fsdp"` to spread them over processes'
            )

        return self.place(backbone, assembled(backbone, pooler, head, saved))

    @in_all_processes
    def place(self, backbone: BuiltBackbone, module: EncoderModule) -> TorchEncoder:
        """Put an encoder on the device, in every process. Raises `RunError` if it does not fit into memory."""
        # A backbone that is spread over several devices stays there.
        dispatched = backbone.dispatched
        placement = self.placement
        with placement.fitting():
            if self.processes.sharded:
                shard(module.backbone, self.processes, placement.dtype)
                dispatched = True
            if dispatched:
                for part in (module.pooler, module.projection, module.transform):
                    part.to(self.device)
            else:
                module.to(self.device)

        return TorchEncoder(
            placement, self.batch_size, self.processes, self.say, backbone, module
        )

    @in_all_processes
    def trainer(self, encoders: Mapping[str, Any], training: Training) -> TorchTrainer:
        """Return a trainer of the encoders that are named in `training.towers`."""
        return TorchTrainer(self.placement, self.processes, encoders, training)
