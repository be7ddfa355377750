"""What the tests of the engine on JAX share with those of the engine on PyTorch."""

from __future__ import annotations

from small_encoder import (  # noqa: F401 - fixtures
    _same_torch_afterwards,
    columns,
    engine,
    engine_of,
    toys,
)
