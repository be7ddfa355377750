"""Cost of runs: in the report, as columns of a study, and in the time of all runs."""

from __future__ import annotations

import json

import attrs
import pytest
from sentbed.protocols import ReportData, Run
from sentbed.tools import record_json
from sentbed_report.figures.study_figures import study_figures
from sentbed_report.run_cost_recorder import RunCostRecorder, cost_scores
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.study_data import AxisInfo, with_runs
from sentbed_report.study_page.runs_section import summary_line, total_seconds

FACTS = {
    "engine": {"memory_gib": 80.0, "processes": 2},
    "counters": {"device_memory_gib": 2.0},
    "trained_tokens": 4000,
    "parameters": {"en": (1_000_000, 200_000), "zh": (500_000, 0)},
}


def recorded(facts, tmp_path):
    """Return the `report.json` of a run of 10 seconds with these facts."""
    sections = RunCostRecorder().report_sections(Run("r", tmp_path, None, facts))
    started = "2026-01-01T00:00:00+00:00"
    data = ReportData("r", "finished", None, started, 10.0, "", {}, sections=sections)
    return json.loads(record_json(data))


def added_costs(data, record):
    """Return a study whose runs have the costs of this record."""

    def with_costs(run):
        costs = tuple(cost_scores(record, run.scores))
        return attrs.evolve(run, costs=costs)

    return attrs.evolve(data, cells=with_runs(data.cells, with_costs))


@pytest.mark.parametrize(
    ("engine", "devices"),
    [
        ({"device": "abacus"}, None),
        ({"platform": "cpu", "devices": 8}, None),
        ({"platform": "tpu", "devices": 4}, 4),
        ({"memory_gib": 80.0}, 1),
        ({"memory_gib": 80.0, "processes": 2}, 2),
    ],
)
def test_devices_are_those_beside_the_processor(engine, devices, tmp_path):
    record = recorded({**FACTS, "engine": engine}, tmp_path)
    rows = {row[0]: row[2] for row in record["sections"]["run-cost"]["rows"]}
    assert rows.get("devices") == devices


def test_a_run_of_which_nothing_is_known_has_no_cost(study_of, tmp_path):
    record = recorded({}, tmp_path)
    assert not record.get("sections")
    data = study_of({"a": {1: {"MR": 50.0}}})
    assert list(cost_scores(record, data.runs[0].scores)) == []


@pytest.mark.parametrize("drawn", [True, False])
def test_costs_are_columns_after_the_scores_and_drawn_where_the_study_asks(
    study_of, tmp_path, drawn
):
    axis = AxisInfo("name", ("a", "b"))
    cost = "run-seconds" if drawn else ""
    scores = {"a": {1: {"MR": 50.0}}, "b": {1: {"MR": 52.0}}}
    data = study_of(scores, (axis,), "a", cost=cost)
    data = added_costs(data, recorded(FACTS, tmp_path))
    of_scores, of_costs = summarise(data)

    assert (of_scores.evaluator, of_costs.evaluator) == ("transfer", "run-cost")

    values = {}
    for column, cell in zip(of_costs.columns, of_costs.rows[0].cells, strict=True):
        assert not column.ranked
        values[column.task] = cell.value

    assert values == {
        "run-seconds": 10.0,
        "run-devices": 2,
        "run-device-memory": 2048.0,
        "run-tokens": 4000,
        "run-parameters": 1.5,
    }
    assert ("cost" in study_figures(data, summarise(data))) is drawn


def test_an_encoder_before_training_has_no_cost(study_of, tmp_path):
    data = study_of({"a": {1: {"MR": 50.0}}})
    (score,) = data.runs[0].scores
    before = attrs.evolve(score, encoder="en@start")
    assert list(cost_scores(recorded(FACTS, tmp_path), [before])) == []


def test_the_page_counts_a_run_of_two_cells_once(study_of, tmp_path):
    data = study_of({"a": {1: {"MR": 50.0}}, "b": {1: {"MR": 50.0}}})

    def in_one_directory(run):
        return attrs.evolve(run, seconds=2.5, directory=tmp_path)

    data = attrs.evolve(data, cells=with_runs(data.cells, in_one_directory))

    assert summary_line(data).endswith(" 2.5 s of runs.")


def test_shared_stages_count_once_in_the_time_of_a_study(study_of):
    own = {"a": 1.0, "b": 2.0, "c": 4.0}
    shared = {
        "a": {"pairs-1": 100.0, "tune-2": 10.0},
        "b": {"pairs-1": 100.0, "tune-2": 10.0},
        "c": {"pairs-1": 100.0},
    }
    data = study_of({name: {1: {"MR": 50.0}} for name in own})

    def with_seconds(run):
        of_stages = shared[run.cell]
        seconds = own[run.cell] + sum(of_stages.values())
        record = {"manifest": {"shared_seconds": of_stages}}
        return attrs.evolve(run, seconds=seconds, record=record)

    data = attrs.evolve(data, cells=with_runs(data.cells, with_seconds))

    assert total_seconds(data) == 100 + 10 + 1 + 2 + 4
