from __future__ import annotations

import subprocess
import sys

import pytest
from sentbed_trackers import metric_series
from sentbed_trackers.mlflow import MLflow
from sentbed_trackers.tensorboard import TensorBoard


@pytest.mark.parametrize(
    ("tracker", "library"), [(TensorBoard(), "tensorboard"), (MLflow(), "mlflow")]
)
def test_a_missing_library_is_a_problem_that_names_the_extra(
    tracker, library, monkeypatch
):
    names = []

    def nowhere(name):
        names.append(name)

    monkeypatch.setattr(metric_series, "find_spec", nowhere)
    (problem,) = tracker.check()
    assert names == [library]
    assert problem.endswith(
        f"install it with `pip install 'sentbed-trackers[{library}]'`"
    )


def test_tensorboard_writes_without_a_tensor_library(tmp_path):
    pytest.importorskip("tensorboard", reason="needs the extra `tensorboard`")
    (tmp_path / "resolved.toml").touch()
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from types import SimpleNamespace\n"
        "from sentbed_trackers.tensorboard import TensorBoard\n"
        "tracker = TensorBoard().build()\n"
        f"tracker.run_started(SimpleNamespace(directory=Path({str(tmp_path)!r}), facts={{}}))\n"
        "tracker.put(1, {'loss': 1.0})\n"
        "tracker.run_finished()\n"
        "heavy = {'torch', 'tensorflow', 'jax'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "tensorboard").iterdir())
