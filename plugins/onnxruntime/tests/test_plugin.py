from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import sentbed_onnxruntime
from sentbed_onnxruntime.onnx_runtime import OnnxRuntime
from sentbed_testing import check_component


def test_the_entry_point_names_the_package() -> None:
    points = entry_points(group="sentbed")
    values = [
        point.value for point in points if point.dist.name == "sentbed-onnxruntime"
    ]
    assert values == ["sentbed_onnxruntime"]


def test_the_hook_offers_the_runtime_by_name() -> None:
    assert list(sentbed_onnxruntime.runtimes()) == ["onnxruntime"]


def test_the_runtime_keeps_the_contract() -> None:
    assert check_component(OnnxRuntime, kind="runtime").not_run == {}


def test_importing_and_checking_the_runtime_loads_no_heavy_library() -> None:
    code = (
        "import sys, sentbed_onnxruntime as package\n"
        "from sentbed_testing import offered\n"
        "[runtime] = offered(package.runtimes())\n"
        "assert list(runtime(precision='int8').check()) == []\n"
        "heavy = {'torch', 'onnxruntime', 'onnx', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
