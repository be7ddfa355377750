"""Cost of a whole study: sums by hand, the section, columns and exports."""

from __future__ import annotations

import csv
import json

import attrs
import pytest
from sentbed.errors import RunError
from sentbed_report.figures.study_figures import study_figures
from sentbed_report.run_cost import RecordedCost, RunCost
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.exports import write_exports
from sentbed_report.study.read_cell_run import read_run
from sentbed_report.study.study_cost import study_cost
from sentbed_report.study.study_data import AxisInfo, with_runs
from sentbed_report.study_page.runs_section import summary_line
from sentbed_report.study_page.study_cost_section import study_cost_section
from sentbed_report.tables.estimate import Estimate

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


def test_shared_stages_are_counted_once_and_without_sharing_once_a_run(study):
    cost = study_cost(study())
    assert (cost.runs, cost.unknown, cost.cached) == (3, 0, 0)
    assert cost.cells.seconds == 1 + 2 + 4
    assert cost.shared.seconds == 100 + 10
    assert cost.taken.seconds == 117
    assert cost.alone.seconds == 3 * 100 + 2 * 10 + 7
    assert cost.taken.tokens == 11_000 + 700
    assert cost.alone.tokens == 3 * 10_000 + 2 * 1_000 + 700
    assert cost.begun == {"pre-1": 3, "mid-2": 2}


def test_runs_with_fresh_seeds_cost_too(study):
    data = study()
    chosen, *others = data.cells
    chosen = attrs.evolve(chosen, confirmation=chosen.runs)
    cost = study_cost(attrs.evolve(data, cells=(chosen, *others)))
    assert (cost.runs, cost.cells.seconds) == (4, 1 + 1 + 2 + 4)


@pytest.mark.parametrize("manifest", [None, {"cache": 3}])
def test_a_damaged_manifest_does_not_stop_the_report(study, manifest):
    data = study()

    def damaged(run):
        return attrs.evolve(run, record={"manifest": manifest})

    data = attrs.evolve(data, cells=with_runs(data.cells, damaged))
    assert study_cost(data).cached == 0


def texts_of(section):
    """What the table of a section shows: part -> text in each column, None for an empty one."""
    (table,) = section.tables
    rows = {}
    for row in table.rows:
        texts = []
        for column, cell in zip(table.columns, row.cells, strict=True):
            if isinstance(cell, Estimate) and cell.value is not None:
                texts.append(column.text(cell.value))
            else:
                texts.append(cell)
        rows[row.headers[0]] = texts

    return rows


def test_without_sharing_there_is_nothing_to_compare_with(study):
    section = study_cost_section(study(share=False))
    assert section is not None
    assert texts_of(section) == {"taken": ["7.0 s", "3.5 s", "700"]}


def test_what_is_not_known_is_named_and_not_summed(study):
    data = study()
    first, second, third = data.cells
    (run,) = first.runs
    own_cost = attrs.evolve(run.cost.own, tokens=None)
    record = {"manifest": {"cache": {"taken": 5, "encoded": 0}}}
    uncounted = attrs.evolve(
        run, cost=attrs.evolve(run.cost, own=own_cost), record=record
    )
    unrecorded = attrs.evolve(third.runs[0], status="failed", cost=None)
    waiting = attrs.evolve(second.runs[0], status="waiting", cost=None)
    runs = (uncounted, waiting, unrecorded)
    cells = [
        attrs.evolve(cell, runs=(run,))
        for cell, run in zip(data.cells, runs, strict=True)
    ]
    data = attrs.evolve(data, cells=tuple(cells))
    section = study_cost_section(data)
    texts = texts_of(section)
    tokens = [row[-1] for row in texts.values()]
    assert tokens == [
        "not known",
        "11,000",
        "not known",
        "not known",
        Estimate(value=None),
    ]
    assert texts["saved"][0] == "0 %"
    assert section.notes[0] == "Without 1 run whose cost is not recorded."
    assert section.notes[1].startswith("1 run encoded nothing")
    nothing = tuple(attrs.evolve(cell, runs=()) for cell in data.cells)
    assert study_cost_section(attrs.evolve(data, cells=nothing)) is None


def test_costs_of_runs_are_columns_beside_the_scores(study, tmp_path):
    data = study(cost="run-processor-seconds")
    scores, costs = summarise(data)
    assert (scores.evaluator, costs.evaluator) == ("transfer", "run-cost")
    row = dict(
        zip((column.task for column in costs.columns), costs.rows[0].cells, strict=True)
    )
    # Shared stages count in full: the cell would take them alone.
    assert row["run-seconds"].value == 111
    assert row["run-memory"].value == 300
    assert not any(column.ranked for column in costs.columns)
    write_exports(tmp_path, data)
    lines = list(
        csv.DictReader((tmp_path / "tables" / "scores.csv").read_text().splitlines())
    )
    tokens = {
        line["cell"]: line["value"] for line in lines if line["task"] == "run-tokens"
    }
    assert tokens == {"a": "11100.0", "b": "11200.0", "c": "10400.0"}


def test_costs_of_runs_are_drawn_only_where_the_study_asks(study):
    for cost, names in {"": [], "run-processor-seconds": ["cost"]}.items():
        data = study(cost=cost)
        figures = study_figures(data, summarise(data))
        assert [name for name in figures if name == "cost"] == names


def test_the_summary_counts_shared_stages_once(study):
    data = study()
    cells = []
    for cell in data.cells:
        runs = []
        for run in cell.runs:
            if run.cost:
                runs.append(attrs.evolve(run, seconds=run.cost.alone.seconds))
        cells.append(attrs.evolve(cell, runs=tuple(runs)))

    assert summary_line(attrs.evolve(data, cells=tuple(cells))).endswith(
        " 1 min 57 s of runs."
    )


def test_a_run_with_a_damaged_cost_is_an_error_with_its_file(run_of, tmp_path):
    path = run_of("a")
    assert read_run(path, "a", 1, tmp_path).cost is None
    record = json.loads((path / "report.json").read_text())
    record["sections"] = {"run-cost": {"columns": ["cost"], "rows": []}}
    (path / "report.json").write_text(json.dumps(record))
    with pytest.raises(RunError, match=r"section `run-cost` of `.*report\.json`"):
        read_run(path, "a", 1, tmp_path)
