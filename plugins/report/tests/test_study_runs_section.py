"""Runs in a study's report: errors, warnings and versions."""

from __future__ import annotations

from sentbed_report.study.study_data import CellInfo, CellRun, StudyData
from sentbed_report.study_page.runs_section import runs_section

OLD = {"sentbed": "0.1.0", "torch": "2.12", "numpy": "2.4"}
NEW = {"sentbed": "0.1.0", "torch": "2.13", "numpy": "2.4"}


def run(cell, seed, code, *warnings, status="finished", error=""):
    record = {"warnings": list(warnings), "manifest": {"code": code}}
    return CellRun(cell, seed, status, record=record, error=error)


def study(*runs):
    cells = {}
    for of_cell in runs:
        cells.setdefault(of_cell.cell, []).append(of_cell)
    infos = [CellInfo(cell, {}, tuple(of_cell)) for cell, of_cell in cells.items()]
    return StudyData("study", (), tuple(infos), None, (1, 2))


def contents(table):
    return [(row.headers, row.cells) for row in table.rows]


def test_warnings_and_versions_are_listed_with_their_runs():
    data = study(
        run("mean", 1, OLD, "slow", "slow"),
        run("last", 1, NEW, "slow", "lost"),
        run("first", 1, OLD, "not read", status="failed"),
    )
    _, warnings, versions = runs_section(data).tables
    assert contents(warnings) == [
        (("2 runs: mean; last",), ("slow",)),
        (("1 run: last",), ("lost",)),
    ]
    assert contents(versions) == [
        (("torch", "2.12"), ("1 run: mean",)),
        (("torch", "2.13"), ("1 run: last",)),
    ]


def test_an_error_stands_once_and_opens_the_section():
    runs = [
        run("mean", seed, OLD, status="failed", error="out of memory")
        for seed in (1, 2)
    ]
    section = runs_section(study(*runs))
    (text,) = section.texts
    assert section.is_open
    assert text.text == "out of memory"
    assert text.title == "2 runs: mean, seed 1; mean, seed 2"


def test_without_remarks_there_is_one_table():
    section = runs_section(study(run("mean", 1, OLD), run("last", 1, OLD)))
    assert len(section.tables) == 1
    assert not section.is_open
