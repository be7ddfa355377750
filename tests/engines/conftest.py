"""What the tests of both engines share."""

from __future__ import annotations

from small_encoder import _same_torch_afterwards, engine, engine_of, toys  # noqa: F401 - fixtures
