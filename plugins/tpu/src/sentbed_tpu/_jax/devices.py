"""The devices of an engine on JAX, with the batch shapes and compiled functions of its encoders and trainers."""

from __future__ import annotations

import attrs

from sentbed_tpu._jax.compiled_functions import Compiled
from sentbed_tpu._jax.mesh import Layout
from sentbed_tpu._jax.shape_buckets import Buckets


@attrs.frozen(eq=False)
class JaxDevices:
    """The devices of an engine: how arrays lie on them, shapes of batches, and compiled functions."""

    layout: Layout
    buckets: Buckets
    bf16: bool
    """Whether backbones compute in bf16."""
    compiled: Compiled = attrs.field(factory=Compiled)
