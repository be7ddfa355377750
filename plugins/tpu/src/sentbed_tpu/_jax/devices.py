"""The devices of an engine, with what its encoders and trainers need of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
from sentbed_hardware.engine_parts.process_group import Processes

from sentbed_tpu._jax.compiled_functions import Compiled
from sentbed_tpu._jax.mesh import Layout
from sentbed_tpu._jax.shape_buckets import Buckets


class JaxDevices:
    """A mesh of devices, the shapes of batches on it, and the functions compiled for it.

    `bf16` is whether backbones compute in bf16; `facts` describe devices and precision.
    """

    def __init__(
        self,
        layout: Layout,
        buckets: Buckets,
        bf16: bool,
        facts: Mapping[str, Any],
        processes: Processes | None = None,
    ) -> None:
        self.layout = layout
        self.buckets = buckets
        self.bf16 = bf16
        self.facts = facts
        self.token_budget = buckets.token_budget
        self.compiled = Compiled()
        self.key = jax.random.key(0)
        """What the random keys of dropout are made of."""
        self.processes = processes or Processes()
