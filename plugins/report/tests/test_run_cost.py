from __future__ import annotations

import json

import attrs
from sentbed.protocols import ReportData
from sentbed.tools import record_json
from sentbed_report.run_cost import (
    NOTHING,
    RecordedCost,
    RunCost,
    cost_scores,
    recorded_cost,
)

PAIRS = RunCost(10.0, 8.0, None, 500.0, None, 4000, 1.5, 0.5)
TUNE = RunCost(5.0, 6.0, None, 700.0, None, 1000, 1.5, 1.0)
OWN = RunCost(2.0, 1.0, None, 600.0, None, 300, 1.5, 1.5)


def record_of(cost):
    sections = (cost.section(),)
    data = ReportData(
        "r",
        "finished",
        None,
        "2026-01-01T00:00:00+00:00",
        1.0,
        "",
        {},
        sections=sections,
    )
    return json.loads(record_json(data))


def test_parts_add_up_but_peaks_and_what_is_there_at_the_end():
    whole = RunCost(17.0, 15.0, None, 700.0, None, 5300, 1.5, 1.5)
    assert PAIRS + TUNE + OWN == sum([PAIRS, TUNE, OWN], start=NOTHING) == whole
    # What is not known of a part is not known of the whole.
    assert (PAIRS + attrs.evolve(TUNE, tokens=None)).tokens is None
    assert RunCost() + OWN == RunCost(parameters=1.5, trained_parameters=1.5)


def test_a_cost_is_read_from_the_record_that_it_was_written_to():
    cost = RecordedCost(OWN, {"pairs-1a": PAIRS, "tune-2b": TUNE})
    record = record_of(cost)
    assert recorded_cost(record) == cost
    section = record["sections"]["run-cost"]
    assert section["columns"] == ["cost", "unit", "this run", "pairs-1a", "tune-2b"]
    assert section["rows"][1] == ["processor-seconds", "s", 1.0, 8.0, 6.0]
    # Of what no part knows anything there is no row.
    assert not any(row[0].startswith("device") for row in section["rows"])
    assert recorded_cost({"sections": {}}) is recorded_cost({}) is None


def test_a_run_costs_its_shared_stages_too():
    cost = RecordedCost(OWN, {"pairs-1a": PAIRS})
    scores = {score.task: score for score in cost_scores(cost, "en")}
    assert {task: score.value for task, score in scores.items()} == {
        "run-seconds": 12.0,
        "run-processor-seconds": 9.0,
        "run-memory": 600.0,
        "run-tokens": 4300,
        "run-parameters": 1.5,
        "run-trained-parameters": 1.5,
    }
    assert {
        (score.axis, score.direction, score.encoder) for score in scores.values()
    } == {("cost", "lower", "en")}
    assert list(cost_scores(cost, "en@start")) == list(cost_scores(None, "en")) == []
