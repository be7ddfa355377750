"""Cost of a whole study: sums by hand, columns and exports."""

from __future__ import annotations

import csv

import attrs
import pytest
from sentbed_report.figures.study_figures import study_figures
from sentbed_report.run_cost import RecordedCost, RunCost
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.exports import write_exports
from sentbed_report.study.study_cost import study_cost
from sentbed_report.study.study_data import AxisInfo, with_runs
from sentbed_report.study_page.runs_section import summary_line

PRE = RunCost(100.0, 80.0, None, 300.0, None, 10_000, 2.0, 2.0)
"""What stages take that all cells begin with; the next ones are those of two of them."""
MID = RunCost(10.0, 8.0, None, 200.0, None, 1_000, 2.0, 2.0)
CELLS = {"a": 1.0, "b": 2.0, "c": 4.0}


@pytest.fixture
def study(study_of):
    """Three cells of one seed; a and b go on from two shared runs, c from the first of them."""

    def make(share=True, **more):
        scores = {name: {1: {"MR": 50.0 + times}} for name, times in CELLS.items()}
        data = study_of(scores, (AxisInfo("name", tuple(CELLS)),), "a", **more)

        def with_cost(run):
            times = CELLS[run.cell]
            own_cost = RunCost(
                times, 0.5 * times, None, 250.0, None, 100 * times, 2.0, 2.0
            )
            shared = {}
            if share:
                shared["pre-1"] = PRE

            if share and run.cell != "c":
                shared["mid-2"] = MID

            return attrs.evolve(run, cost=RecordedCost(own_cost, shared))

        return attrs.evolve(data, cells=with_runs(data.cells, with_cost))

    return make


def test_shared_stages_are_counted_once(study):
    cost = study_cost(study())

    assert cost.seconds == 100 + 10 + 1 + 2 + 4
    assert cost.tokens == 11_000 + 700
    assert cost.device_seconds is None


def test_runs_with_fresh_seeds_cost_too(study):
    data = study()
    chosen, *others = data.cells
    fresh = attrs.evolve(chosen.runs[0], seed=7)
    chosen = attrs.evolve(chosen, confirmation=(fresh,))
    cost = study_cost(attrs.evolve(data, cells=(chosen, *others)))

    assert cost.seconds == 110 + 1 + 1 + 2 + 4


def test_the_page_says_how_long_all_runs_took(study):
    assert summary_line(study(share=False)).endswith(" 7.0 s of runs.")


def test_costs_of_runs_are_columns_beside_the_scores(study, tmp_path):
    data = study(cost="run-processor-seconds")
    scores, costs = summarise(data)

    assert (scores.evaluator, costs.evaluator) == ("transfer", "run-cost")

    # Shared stages count in full: the cell would take them alone.
    tasks = [column.task for column in costs.columns]
    seconds = costs.rows[0].cells[tasks.index("run-seconds")]
    memory = costs.rows[0].cells[tasks.index("run-memory")]

    assert (seconds.value, memory.value) == (111, 300)
    assert not any(column.ranked for column in costs.columns)

    write_exports(tmp_path, data)
    text = (tmp_path / "tables" / "scores.csv").read_text()
    tokens = {}
    for line in csv.DictReader(text.splitlines()):
        if line["task"] == "run-tokens":
            tokens[line["cell"]] = line["value"]

    assert tokens == {"a": "11100.0", "b": "11200.0", "c": "10400.0"}


def test_costs_of_runs_are_drawn_only_where_the_study_asks(study):
    for cost, names in {"": [], "run-processor-seconds": ["cost"]}.items():
        data = study(cost=cost)
        figures = study_figures(data, summarise(data))
        assert [name for name in figures if name == "cost"] == names
