from __future__ import annotations

import pytest
from sentbed import RunError
from sentbed.helpers import peak_memory
from sentbed_evaluators import memory
from sentbed_evaluators.memory import Memory


def test_on_a_processor_the_process_is_measured_and_the_rest_left_out(
    table_encoder,
):
    before = peak_memory() / 2**30
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

    after = peak_memory() / 2**30
    assert 0 < before <= evaluation.primary == score.value <= after


def test_where_nothing_can_be_measured_it_is_refused(table_encoder, monkeypatch):
    monkeypatch.setattr(memory, "peak_memory", lambda: None)
    with pytest.raises(
        RunError,
        match="finds no memory to measure: the device `cpu` has none of its own",
    ):
        Memory().prepare().evaluate(table_encoder())
