from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import sentbed_hardware


def test_the_entry_point_names_the_package() -> None:
    found = [
        point.value
        for point in entry_points(group="sentbed")
        if point.dist.name == "sentbed-hardware"
    ]
    assert found == ["sentbed_hardware"]


def test_the_hooks_offer_the_components_by_name() -> None:
    assert list(sentbed_hardware.runtimes()) == ["cpu", "cuda"]
    assert list(sentbed_hardware.optimizers()) == ["adamw", "adafactor"]
    names = list(sentbed_hardware.schedules())
    assert names == [
        "constant",
        "linear",
        "linear-after-hold",
        "cosine",
        "relative-step",
    ]


def test_importing_and_computing_a_schedule_loads_no_heavy_library() -> None:
    code = (
        "import sys, sentbed_hardware as h\n"
        "from sentbed_testing import offered\n"
        "of = {part.name: part for part in (*offered(h.runtimes()), *offered(h.optimizers()))}\n"
        "of['cpu'](), of['adamw'](lr=1e-3), of['adafactor']()\n"
        "assert [schedule().factor(0, 10) for schedule in offered(h.schedules())] == [1.0] * 4 + [0.01]\n"
        "heavy = {'torch', 'transformers', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
