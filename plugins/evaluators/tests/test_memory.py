from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sentbed import RunError
from sentbed_evaluators import memory
from sentbed_evaluators.memory import Memory


def test_on_a_processor_the_process_is_measured_and_the_rest_left_out(
    table_encoder,
):
    before = memory._process_peak()
    evaluation = Memory().prepare().evaluate(table_encoder())
    (score,) = evaluation.scores
    assert (score.task, score.metric, score.direction) == (
        "memory",
        "process-peak",
        "lower",
    )
    assert (
        score.note
        == "the device `cpu` has no memory of its own: there is no `device-peak`"
    )
    after = memory._process_peak()
    assert 0 < before <= evaluation.primary == score.value <= after


@pytest.mark.skipif(
    not Path("/proc/self/status").is_file(), reason="reads /proc/self/status"
)
def test_the_peak_of_the_process_that_started_this_one_is_not_counted():
    program = "from sentbed_evaluators import memory; print(memory._process_peak())"
    large = np.ones(2**26)
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 0 < float(run.stdout) < large.nbytes / 2**30


def test_where_nothing_can_be_measured_it_is_refused(table_encoder, monkeypatch):
    monkeypatch.setattr(memory, "_process_peak", lambda: None)
    with pytest.raises(
        RunError,
        match="finds no memory to measure: the device `cpu` has none of its own",
    ):
        Memory().prepare().evaluate(table_encoder())
