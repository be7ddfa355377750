"""What the tests of the engine on PyTorch share."""

from __future__ import annotations

from small_encoder import (  # noqa: F401 - fixtures
    _same_torch_afterwards,
    assemble,
    columns,
    engine,
    engine_of,
    room_for,
    toys,
)
