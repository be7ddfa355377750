"""The devices of an engine, with what its encoders and trainers need of them."""

from __future__ import annotations

import attrs
from sentbed_hardware.engine_parts.process_group import Processes

from sentbed_tpu._jax.compiled_functions import Compiled
from sentbed_tpu._jax.mesh import Layout
from sentbed_tpu._jax.shape_buckets import Buckets


@attrs.frozen(eq=False)
class JaxDevices:
    """A mesh of devices, the shapes of batches on it, and the functions compiled for it."""

    layout: Layout
    buckets: Buckets
    bf16: bool
    """Whether backbones compute in bf16."""
    processes: Processes = attrs.field(factory=Processes)
    compiled: Compiled = attrs.field(factory=Compiled)
