from __future__ import annotations

import resource
import sys

import pytest
from sentbed import RunError
from sentbed_evaluators import memory
from sentbed_evaluators.memory import Memory


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        2**30 if sys.platform == "darwin" else 2**20
    )


def test_on_a_processor_the_process_is_measured_and_the_rest_left_out(
    table_encoder,
):
    before = peak()
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
    assert 0 < before <= evaluation.primary == score.value <= peak()


def test_where_nothing_can_be_measured_it_is_refused(table_encoder, monkeypatch):
    monkeypatch.setattr(memory, "_process_peak", lambda: None)
    with pytest.raises(
        RunError,
        match="finds no memory to measure: the device `cpu` has none of its own",
    ):
        Memory().prepare().evaluate(table_encoder())
