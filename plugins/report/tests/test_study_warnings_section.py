"""A study's report says what its runs have warned of."""

from __future__ import annotations

import pytest
from sentbed_report.page.report_page import AnswerLine
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData
from sentbed_report.study_page.answer import answer_lines
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


def test_the_answer_counts_the_runs_of_the_section():
    runs = (
        run("mean", 1, ["a"]),
        run("mean", 2, ["b"], "failed"),
        run("mean", 3, "damaged"),
    )
    data = study(CellInfo("mean", {}, runs, confirmation=(run("mean", 4, ["c"]),)))
    section = warnings_section(data)
    assert section.summary == "2 of 3 finished runs had warnings"
    (mind,) = [
        line.answer
        for line in answer_lines(data, [], None, [])
        if line.question == "Mind"
    ]
    assert mind == "1 of 3 runs failed; 2 runs with warnings"


@pytest.mark.parametrize(
    ("kept_steps", "untrained"), [([0], 2), ([0, 0], 2), ([20, 0], 1), ([None], 1)]
)
def test_untrained_weights_come_first_in_the_answer(kept_steps, untrained):
    stages = [{"name": "nli", "best_step": step} for step in kept_steps]
    runs = (
        CellRun("mean", 1, "finished", record={"stages": [{"best_step": 0}]}),
        CellRun("mean", 2, "finished", record={"stages": stages, "warnings": ["a"]}),
        CellRun("mean", 3, "running", record={"stages": [{"best_step": 0}]}),
        CellRun("mean", 4, "finished", record={"stages": []}),
    )
    first, *_ = answer_lines(study(CellInfo("mean", {}, runs)), [], None, [])
    assert first == AnswerLine(
        "Untrained",
        f"the weights scored are those from before training in {untrained} of 2 trained runs: no validation was "
        "above that of step 0",
    )


def test_without_a_warning_there_is_no_section():
    # Runs of earlier versions say nothing, or something else.
    runs = (
        run("mean", 1, []),
        CellRun("mean", 2, "finished"),
        run("mean", 3, "damaged"),
    )
    assert warnings_section(study(CellInfo("mean", {}, runs))) is None
