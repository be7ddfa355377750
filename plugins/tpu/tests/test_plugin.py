from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import sentbed_hardware
import sentbed_tpu
from sentbed_testing import check_component
from sentbed_tpu.tpu import Tpu


def test_the_entry_point_names_the_package() -> None:
    found = [
        point.value
        for point in entry_points(group="sentbed")
        if point.dist.name == "sentbed-tpu"
    ]
    assert found == ["sentbed_tpu"]


def test_the_hook_offers_the_runtime_by_name() -> None:
    assert list(sentbed_tpu.runtimes()) == ["tpu"]


def test_the_runtime_keeps_the_contract() -> None:
    skip = {"engine": "it loads JAX; the tests of `-m jax` build it"}
    assert check_component(Tpu, kind="runtime", skip=skip).not_run.keys() == skip.keys()


def test_importing_the_runtime_loads_no_heavy_library() -> None:
    code = (
        "import sys, sentbed_tpu as t\n"
        "from sentbed_testing import offered\n"
        "[runtime] = offered(t.runtimes())\n"
        "assert list(runtime().check()) == []\n"
        "heavy = {'torch', 'jax', 'optax', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("word", ["jax", "optax"])
def test_whoever_does_not_install_it_has_no_trace_of_it(word: str) -> None:
    modules = sorted(Path(sentbed_hardware.__file__).parent.rglob("*.py"))
    assert len(modules) > 20
    assert [
        module.name for module in modules if word in module.read_text("utf-8").lower()
    ] == []
