"""The engine on JAX: it puts weights on the devices, and creates encoders and trainers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import torch
from sentbed.protocols import (
    BuiltBackbone,
    Head,
    Pooler,
    Training,
    TrainingEngine,
)
from sentbed_hardware.engine_parts.encoder_module import assembled
from sentbed_hardware.engine_parts.training_checks import (
    common_width,
)

from sentbed_tpu._jax.devices import JaxDevices
from sentbed_tpu._jax.encoder import JaxEncoder
from sentbed_tpu._jax.trainer import JaxTrainer


class JaxEngine(TrainingEngine):
    """An engine over the devices of this machine. `describe` returns `facts`."""

    def __init__(self, devices: JaxDevices, facts: Mapping[str, Any]) -> None:
        self.devices = devices
        self.token_budget = devices.buckets.token_budget
        self.facts = facts
        self.key = jax.random.key(0)
        """Random key from which trainers derive the keys of dropout."""

    def describe(self) -> Mapping[str, Any]:
        """Return facts about the engine: platform, devices, precision, versions."""
        return self.facts

    def counters(self) -> Mapping[str, float]:
        """Return the peak memory of a device in GiB, if JAX knows it."""
        first_device = self.devices.layout.mesh.local_devices[0]
        statistics = first_device.memory_stats() or {}
        if "peak_bytes_in_use" not in statistics:
            return {}

        return {"device_memory_gib": statistics["peak_bytes_in_use"] / 2**30}

    def seed(self, seed: int) -> None:
        """Seed torch, which initialises weights on the host, and JAX, which draws dropout."""
        torch.manual_seed(seed)
        self.key = jax.random.key(seed % 2**32)

    def assemble(
        self,
        backbone: BuiltBackbone,
        pooler: Pooler,
        head: Head,
        saved: Path | None = None,
    ) -> JaxEncoder:
        """Build pooler and head, and put all weights on the devices."""
        module = assembled(backbone, pooler, head, saved)
        return JaxEncoder(self.devices, self.facts, backbone, module)

    def trainer(self, encoders: Mapping[str, Any], training: Training) -> JaxTrainer:
        """Return a trainer of the encoders that are named in `training.towers`."""
        component = training.loss
        loss = component.build(common_width(encoders))
        return JaxTrainer(self.devices, self.key, encoders, training, loss)
