"""A study's report says what its runs have warned of."""

from __future__ import annotations

from sentbed_report.study.study_data import CellInfo, CellRun, StudyData
from sentbed_report.study_page.warnings_section import warnings_section


def run(cell, seed, warnings, status="finished"):
    return CellRun(cell, seed, status, record={"warnings": warnings})


def study(*cells):
    return StudyData("study", (), cells, None, (1, 2))


def test_warnings_are_listed_with_their_runs_and_equal_ones_once():
    mean = (
        run("mean", 1, []),
        run("mean", 2, ["no better than 57.63", "no better than 57.63"]),
    )
    last = (
        run("last", 1, ["no better than 8", "the tracker is lost"]),
        run("last", 2, ["other"], "failed"),
    )
    fresh = (run("mean", 3, ["no better than 1,234.5"]),)
    data = study(
        CellInfo("mean", {}, mean, confirmation=fresh), CellInfo("last", {}, last)
    )
    section = warnings_section(data)
    assert section.sentences[0].startswith("3 of 4 finished runs had warnings.")
    (table,) = section.tables
    assert [(row.headers, row.cells) for row in table.rows] == [
        (("3 runs: mean; last",), ("no better than 57.63",)),
        (("1 run: last",), ("the tracker is lost",)),
    ]


def test_without_a_warning_there_is_no_section():
    runs = (
        run("mean", 1, []),
        CellRun("mean", 2, "finished"),
        run("mean", 3, "damaged"),
    )
    assert warnings_section(study(CellInfo("mean", {}, runs))) is None
