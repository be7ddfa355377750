from __future__ import annotations

from sentbed_report.study.study_data import CellInfo, CellRun, StudyData
from sentbed_report.study_page.code_section import code_section

OLD = {"sentbed": "0.1.0 " + "a" * 64, "torch": "2.12", "numpy": "2.4"}
NEW = {"sentbed": "0.1.0 " + "b" * 64, "torch": "2.13", "numpy": "2.4"}


def run(cell, seed, code, status="finished"):
    return CellRun(cell, seed, status, record={"manifest": {"code": code}})


def study(*runs):
    cells = {}
    for run in runs:
        cells.setdefault(run.cell, []).append(run)
    infos = [CellInfo(cell, {}, tuple(of_cell)) for cell, of_cell in cells.items()]
    return StudyData("study", (), tuple(infos), None, (1, 2))


def test_runs_by_other_code_and_versions_are_named_with_what_differs():
    data = study(
        run("mean", 1, OLD),
        run("mean", 2, NEW),
        run("last", 1, NEW),
        run("first", 1, OLD, "failed"),
    )
    section = code_section(data)
    assert section.sentences == (
        "Not all runs were made with the same code and versions, which may decide scores: sentbed, torch. "
        "The tables have all runs nevertheless.",
    )
    (table,) = section.tables
    assert [column.heading for column in table.columns] == ["sentbed", "torch"]
    assert [(row.headers, row.cells) for row in table.rows] == [
        (("1 run: mean",), ("0.1.0 aaaaaaaa", "2.12")),
        (("2 runs: mean; last",), ("0.1.0 bbbbbbbb", "2.13")),
    ]


def test_what_only_some_cells_use_is_no_difference():
    data = study(
        run("mean", 1, OLD),
        run("last", 1, OLD | {"lab-loss": "1.0 c"}),
        run("first", 1, None),
    )
    assert code_section(data) is None
