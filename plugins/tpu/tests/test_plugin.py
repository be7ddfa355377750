from __future__ import annotations

from pathlib import Path

import pytest
import sentbed_hardware
from sentbed_testing import check_component
from sentbed_tpu.tpu import Tpu


def test_the_runtime_keeps_the_contract() -> None:
    skip = {"engine": "it loads JAX; the tests of `-m jax` build it"}
    assert check_component(Tpu, kind="runtime", skip=skip).not_run.keys() == skip.keys()


@pytest.mark.parametrize("word", ["jax", "optax"])
def test_whoever_does_not_install_it_has_no_trace_of_it(word: str) -> None:
    modules = sorted(Path(sentbed_hardware.__file__).parent.rglob("*.py"))
    assert len(modules) > 20
    assert [
        module.name for module in modules if word in module.read_text("utf-8").lower()
    ] == []
