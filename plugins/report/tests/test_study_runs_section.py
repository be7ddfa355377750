"""Runs in a study's report: errors and warnings."""

from __future__ import annotations

import attrs
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData
from sentbed_report.study_page.runs_section import runs_section, status_class


def run(cell, seed, *warnings, status="finished", error=""):
    record = {"warnings": list(warnings)}
    return CellRun(cell, seed, status, record=record, error=error)


def study(*runs):
    cells = {}
    for of_cell in runs:
        cells.setdefault(of_cell.cell, []).append(of_cell)
    infos = [CellInfo(cell, {}, tuple(of_cell)) for cell, of_cell in cells.items()]
    return StudyData("study", (), tuple(infos), None, (1, 2))


def test_warnings_are_listed_once_with_their_runs():
    data = study(
        run("mean", 1, "slow", "slow"),
        run("last", 1, "slow", "lost"),
        run("first", 1, "not read", status="waiting"),
    )
    texts = [(text.title, text.text) for text in runs_section(data).texts]
    assert texts == [
        ("2 runs: mean, seed 1; last, seed 1", "slow"),
        ("1 run: last, seed 1", "lost"),
    ]


def test_an_error_stands_once_and_opens_the_section():
    runs = [
        run("mean", seed, status="failed", error="out of memory") for seed in (1, 2)
    ]
    section = runs_section(study(*runs))
    (text,) = section.texts
    assert section.is_open
    assert text.text == "out of memory"
    assert text.title == "2 runs: mean, seed 1; mean, seed 2"


def test_a_run_with_a_fresh_seed_that_failed_is_counted_and_says_why():
    data = study(run("mean", 1))
    (cell,) = data.cells
    fresh = run("mean", 9, status="failed", error="out of memory")
    data = attrs.evolve(data, cells=(attrs.evolve(cell, confirmation=(fresh,)),))
    section = runs_section(data)
    (text,) = section.texts
    assert (text.title, text.text) == ("1 run: mean, seed 9", "out of memory")
    assert section.summary == "1 of 2 runs finished, 1 failed"
    assert status_class(data) == "failed"
