from __future__ import annotations

from pathlib import Path

import pytest
import sentbed_hardware
from sentbed_testing import ComponentContract
from sentbed_tpu.tpu import Tpu


class TestTpu(ComponentContract):
    """Without its engine, which loads JAX; `tests/engines/test_tpu.py` has that."""

    component = Tpu()


@pytest.mark.parametrize("word", ["jax", "optax"])
def test_whoever_does_not_install_it_has_no_trace_of_it(word):
    modules = sorted(Path(sentbed_hardware.__file__).parent.rglob("*.py"))
    assert len(modules) > 20
    assert [
        module.name for module in modules if word in module.read_text("utf-8").lower()
    ] == []
