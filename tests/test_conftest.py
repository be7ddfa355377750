"""What the tests of all distributions are held to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SLOW = """
import random, time
import pytest

def busy():
    start = time.process_time()
    while time.process_time() - start < 0.3:
        pass

def test_unmarked(): busy()

@pytest.mark.slow
def test_marked(): busy()

@pytest.mark.sweep(1)
@pytest.mark.parametrize("case", ["quick", "rest"])
def test_swept(case): busy()

def test_first(): assert random.random() == random.Random(7).random()

def test_second(): assert random.random() == random.Random(7).random()
"""


@pytest.mark.slow
def test_a_slow_test_without_a_mark_fails_as_does_the_first_of_a_sweep_and_each_begins_with_the_seed(
    tmp_path,
):
    (tmp_path / "test_slow.py").write_text(SLOW)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "conftest",
        "-p",
        "no:cacheprovider",
        "-c",
        os.devnull,
    ]
    options = ["-o", "test_seconds=0.2", "--seed", "7", "test_slow.py"]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    done = subprocess.run(
        [*command, *options],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    assert "2 failed, 4 passed" in done.stdout, done.stdout
    assert "test_slow.py::test_unmarked" in done.stdout
    assert "test_slow.py::test_swept[quick]" in done.stdout
    assert "without a mark a test may take 0.2 s" in done.stdout
    assert "--seed 7" in done.stdout
