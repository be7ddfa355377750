"""The devices of an engine on JAX, with the batch shapes of its encoders and trainers."""

from __future__ import annotations

import attrs

from sentbed_tpu._jax.mesh import Layout
from sentbed_tpu._jax.shape_buckets import Buckets


@attrs.frozen(eq=False)
class JaxDevices:
    """The devices of an engine: how arrays lie on them, and shapes of batches."""

    layout: Layout
    buckets: Buckets
    bf16: bool
    """Whether backbones compute in bf16."""
