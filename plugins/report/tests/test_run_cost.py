"""Cost of runs: sums by hand, the record, and columns of a study."""

from __future__ import annotations

import json

import attrs
import pytest
from sentbed.protocols import ReportData
from sentbed.tools import record_json
from sentbed_report.figures.study_figures import study_figures
from sentbed_report.run_cost import NOTHING, RunCost, cost_scores, recorded_cost
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.study_data import AxisInfo, with_runs
from sentbed_report.study_page.runs_section import summary_line, total_seconds

PAIRS = RunCost(10.0, 8.0, None, 500.0, None, 4000, 1.5, 0.5)
TUNE = RunCost(5.0, 6.0, None, 700.0, None, 1000, 1.5, 1.0)
OWN = RunCost(2.0, 1.0, None, 600.0, None, 300, 1.5, 1.5)


def test_parts_add_up_but_peaks_and_what_is_there_at_the_end():
    whole = RunCost(17.0, 15.0, None, 700.0, None, 5300, 1.5, 1.5)
    assert PAIRS + TUNE + OWN == sum([PAIRS, TUNE, OWN], start=NOTHING) == whole
    # What is not known of a part is not known of the whole.
    assert (PAIRS + attrs.evolve(TUNE, tokens=None)).tokens is None
    assert RunCost() + OWN == RunCost(parameters=1.5, trained_parameters=1.5)


def test_a_cost_is_read_from_the_record_that_it_was_written_to():
    started = "2026-01-01T00:00:00+00:00"
    sections = (OWN.section(),)
    data = ReportData("r", "finished", None, started, 1.0, "", {}, sections=sections)
    record = json.loads(record_json(data))
    assert recorded_cost(record) == OWN
    rows = record["sections"]["run-cost"]["rows"]
    assert rows[1] == ["processor-seconds", "s", 1.0]
    # Of what nothing is known there is no row.
    assert not any(row[0].startswith("device") for row in rows)
    assert recorded_cost({"sections": {}}) is recorded_cost({}) is None


@pytest.mark.parametrize("drawn", [True, False])
def test_costs_are_columns_after_the_scores_and_drawn_where_the_study_asks(
    study_of, drawn
):
    axis = AxisInfo("name", ("a", "b"))
    cost = "run-processor-seconds" if drawn else ""
    scores = {"a": {1: {"MR": 50.0}}, "b": {1: {"MR": 52.0}}}
    data = study_of(scores, (axis,), "a", cost=cost)
    costs = {"a": PAIRS, "b": TUNE}

    def with_cost(run):
        return attrs.evolve(run, cost=costs[run.cell], seconds=2.5)

    data = attrs.evolve(data, cells=with_runs(data.cells, with_cost))
    of_scores, of_costs = summarise(data)

    assert (of_scores.evaluator, of_costs.evaluator) == ("transfer", "run-cost")

    values = {}
    for column, cell in zip(of_costs.columns, of_costs.rows[0].cells, strict=True):
        assert not column.ranked
        values[column.task] = cell.value

    assert values == {
        "run-seconds": 10.0,
        "run-processor-seconds": 8.0,
        "run-memory": 500.0,
        "run-tokens": 4000,
        "run-parameters": 1.5,
        "run-trained-parameters": 0.5,
    }
    assert ("cost" in study_figures(data, summarise(data))) is drawn


def test_an_encoder_before_training_has_no_cost():
    assert list(cost_scores(OWN, "en@start")) == list(cost_scores(None, "en")) == []


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
