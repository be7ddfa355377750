"""Cost of a whole study: sums by hand, the section, columns and exports."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from sentbed.errors import RunError
from sentbed_report.formatting import energy
from sentbed_report.run_cost import RecordedCost, RunCost
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.exports import write_exports
from sentbed_report.study.read_cell_run import read_run
from sentbed_report.study.score_against_cost import scores_against_cost, unknown_cost
from sentbed_report.study.study_cost import study_cost
from sentbed_report.study.study_data import AxisInfo, CellRun, StudyData
from sentbed_report.study_page.runs_section import summary_line
from sentbed_report.study_page.study_cost_section import study_cost_section
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Table

PRE = RunCost(100.0, 80.0, None, 900.0, 300.0, None, 10_000, 2.0, 2.0)
"""What stages take that all cells begin with; the next ones are those of two of them."""
MID = RunCost(10.0, 8.0, None, 90.0, 200.0, None, 1_000, 2.0, 2.0)
CELLS = {"a": 1.0, "b": 2.0, "c": 4.0}


@pytest.fixture
def study(study_of: Callable[..., StudyData]) -> Callable[..., StudyData]:
    """Three cells of one seed; a and b go on from two shared runs, c from the first of them."""

    def make(share: bool = True, **more: Any) -> StudyData:
        scores = {name: {1: {"MR": 50.0 + times}} for name, times in CELLS.items()}
        data = study_of(scores, (AxisInfo("name", tuple(CELLS)),), "a", **more)

        def with_cost(run: CellRun) -> CellRun:
            times = CELLS[run.cell]
            own = RunCost(times, 0.5 * times, None, 9 * times, 250.0, None, 100 * times, 2.0, 2.0)
            shared = {"pre-1": PRE, "mid-2": MID} if run.cell != "c" else {"pre-1": PRE}
            return attrs.evolve(run, cost=RecordedCost(own, shared if share else {}))

        cells = (attrs.evolve(one, runs=tuple(map(with_cost, one.runs))) for one in data.cells)
        return attrs.evolve(data, cells=tuple(cells))

    return make


def printed(table: Table) -> dict[str, list[str]]:
    """The rows of a table of costs, as readers see them."""
    rows = {}
    for row in table.rows:
        cells = []
        for cell, column in zip(row.cells, table.columns, strict=True):
            cells.append(column.text(cell.value) if isinstance(cell, Estimate) else str(cell or "–"))
        rows[row.headers[0]] = cells
    return rows


def test_shared_stages_are_counted_once_and_without_sharing_once_a_run(
    study: Callable[..., StudyData],
) -> None:
    found = study_cost(study())
    assert found is not None
    assert (found.runs, found.unknown, found.cached) == (3, 0, 0)
    assert found.cells.seconds == 1 + 2 + 4
    assert found.shared is not None
    assert found.shared.seconds == 100 + 10
    assert found.taken.seconds == 117
    assert found.alone.seconds == 3 * 100 + 2 * 10 + 7
    assert found.taken.tokens == 11_000 + 700
    assert found.alone.energy == 3 * 900 + 2 * 90 + 63
    assert found.begun == {"pre-1": 3, "mid-2": 2}


def test_the_section_says_what_was_taken_and_what_sharing_saved(study: Callable[..., StudyData]) -> None:
    section = study_cost_section(study(), ["Stopping saved 3 runs."])
    assert section is not None
    assert section.title == "Cost of the study"
    (table,) = section.tables
    rows = printed(table)
    assert [*rows] == ["cells", "shared stages", "taken", "unshared", "saved"]
    headings = [column.heading for column in table.columns]
    # No device was measured.
    assert headings == ["time of runs", "processor time", "energy", "tokens trained on"]
    assert rows["cells"] == ["7.0 s", "3.5 s", "63 J", "700"]
    assert rows["shared stages"] == ["1 min 50 s", "1 min 28 s", "990 J", "11,000"]
    assert rows["taken"] == ["1 min 57 s", "1 min 32 s", "1.05 kJ", "11,700"]
    assert rows["unshared"] == ["5 min 27 s", "4 min 20 s", "2.94 kJ", "32,700"]
    assert rows["saved"] == ["64 %", "65 %", "64 %", "64 %"]
    assert section.sentences[-1] == "Stopping saved 3 runs."
    assert section.sentences[1] == "2 runs of shared stages, with each of which 2 to 3 runs began."


def test_without_sharing_there_is_nothing_to_compare_with(study: Callable[..., StudyData]) -> None:
    section = study_cost_section(study(share=False))
    assert section is not None
    assert printed(section.tables[0])["taken"][0] == "7.0 s"
    assert len(section.tables[0].rows) == 1


def test_what_is_not_known_is_said_and_not_summed(study: Callable[..., StudyData]) -> None:
    data = study()
    first, second, third = data.cells
    (run,) = first.runs
    assert run.cost is not None
    own = attrs.evolve(run.cost.own, energy=None)
    record = {"manifest": {"cache": {"taken": 5, "encoded": 0}}}
    known = attrs.evolve(run, cost=attrs.evolve(run.cost, own=own), record=record)
    lost = attrs.evolve(third.runs[0], status="failed", cost=None)
    waiting = attrs.evolve(second.runs[0], status="waiting", cost=None)
    cells = tuple(
        attrs.evolve(cell, runs=(run,)) for cell, run in zip(data.cells, (known, waiting, lost), strict=True)
    )
    data = attrs.evolve(data, cells=cells)
    section = study_cost_section(data)
    assert section is not None
    (table,) = section.tables
    energies = [column.heading for column in table.columns].index("energy")
    rows = printed(table)
    assert [row[energies] for row in rows.values()] == ["not known", "990 J", "not known", "not known", "–"]
    assert rows["saved"][0] == "0 %"
    assert section.notes[0] == "Without 1 run whose cost is not recorded."
    assert section.notes[1].startswith("1 run encoded nothing")
    nothing = tuple(attrs.evolve(cell, runs=()) for cell in data.cells)
    assert study_cost_section(attrs.evolve(data, cells=nothing)) is None


def test_costs_of_runs_are_columns_beside_the_scores(study: Callable[..., StudyData], tmp_path: Path) -> None:
    data = study(cost="run-processor-seconds")
    scores, costs = summarise(data)
    assert (scores.evaluator, costs.evaluator) == ("transfer", "run-cost")
    row = dict(zip((column.task for column in costs.columns), costs.rows[0].cells, strict=True))
    # Shared stages count in full: the cell would take them alone.
    assert row["run-seconds"].value == 111
    assert row["run-memory"].value == 300
    assert not any(column.ranked for column in costs.columns)
    (against,) = scores_against_cost((scores, costs), data.cost)
    assert [(one.row.cell, one.cost, one.front) for one in against.points] == [
        ("a", 88.5, None),
        ("b", 89.0, None),
        ("c", 82.0, 1),
    ]
    write_exports(tmp_path, data)
    lines = list(csv.DictReader((tmp_path / "tables" / "scores.csv").read_text().splitlines()))
    found = {line["cell"]: line["value"] for line in lines if line["task"] == "run-tokens"}
    assert found == {"a": "11100.0", "b": "11200.0", "c": "10400.0"}
    assert json.loads((tmp_path / "results.json").read_text())["costs"][0]["unit"] == "s"


def test_costs_of_runs_are_drawn_only_where_the_study_asks(study: Callable[..., StudyData]) -> None:
    found = summarise(study())
    assert scores_against_cost(found) == ()
    assert unknown_cost(found, "passes").endswith("`run-parameters`, `run-trained-parameters`.")


def test_the_summary_counts_shared_stages_once(study: Callable[..., StudyData]) -> None:
    data = study()
    cells = [
        attrs.evolve(
            cell,
            runs=tuple(attrs.evolve(run, seconds=run.cost.alone.seconds) for run in cell.runs if run.cost),
        )
        for cell in data.cells
    ]
    assert summary_line(attrs.evolve(data, cells=tuple(cells))).endswith(" 1 min 57 s of runs.")


def test_runs_that_are_compared_are_no_study(study: Callable[..., StudyData]) -> None:
    assert study_cost_section(attrs.evolve(study(), axes=())) is None


@pytest.mark.parametrize(
    ("joules", "said"),
    [(0.512, "0.512 J"), (999.4, "999 J"), (7200, "7.2 kJ"), (1.5e6, "1.5 MJ"), (3e9, "3 GJ")],
)
def test_energy_has_three_digits(joules: float, said: str) -> None:
    assert energy(joules) == said


def test_a_run_with_a_damaged_cost_is_an_error_with_its_file(
    run_of: Callable[..., Path], tmp_path: Path
) -> None:
    path = run_of("a")
    assert read_run(path, "a", 1, tmp_path).cost is None
    record = json.loads((path / "report.json").read_text())
    record["sections"] = {"run-cost": {"columns": ["cost"], "rows": []}}
    (path / "report.json").write_text(json.dumps(record))
    with pytest.raises(RunError, match=r"section `run-cost` of `.*report\.json`"):
        read_run(path, "a", 1, tmp_path)
