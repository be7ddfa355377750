"""The lines at the top of a study's page, for studies in which the answer was planted."""

from __future__ import annotations

import pytest
from sentbed_report.study import rank_groups
from sentbed_report.study.axis_effects import axis_findings
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.deciding_score import Decide
from sentbed_report.study.selection import select
from sentbed_report.study.study_data import AxisInfo
from sentbed_report.study_page.answer import answer_lines
from toy_study import with_added, with_fields

POOLER = AxisInfo("pooler", ("first", "mean", "last"))
LEVELS = {"first": 60.0, "mean": 80.0, "last": 70.0}
ALIKE = {"first": 60.0, "mean": 80.0, "last": 80.02}
JITTER = (0.1, -0.1, 0.05)


def around(levels, seeds=(1, 2, 3), task="MR"):
    """Scores of each cell near its level, under each seed another one."""
    numbers = {}
    for place, (cell, level) in enumerate(levels.items(), 1):
        numbers[cell] = {}
        for seed in seeds:
            score = level + JITTER[seed * place % 3]
            numbers[cell][seed] = {task: score}

    return numbers


def with_further_task(numbers, further):
    """Scores of each cell and seed in the tasks of both."""
    joined = {}
    for cell, scores_of_seeds in numbers.items():
        joined[cell] = {}
        for seed, scores in scores_of_seeds.items():
            joined[cell][seed] = scores | further[cell][seed]

    return joined


DEVELOPMENT = {"encoder": {}, "evaluator": {"id": "p", "split": "dev"}}


def answers(data):
    summaries = summarise(data)
    lines = answer_lines(
        data, summaries, select(data, summaries), axis_findings(data, summaries)
    )
    assert len(lines) <= 5
    return {line.question: line.answer for line in lines}


@pytest.mark.parametrize("baseline", ["first", None])
def test_a_clear_winner(study_of, baseline):
    lines = answers(study_of(around(LEVELS), [POOLER], baseline, items=True))
    assert [*lines] == ["Best", "Not told apart from the best", "Effects"]
    assert lines["Best"].startswith("mean: MR (accuracy) 80.02 (")
    assert lines["Best"].endswith(
        "widened for the choice) over 3 seeds; chosen among 3 cells on this very test data, so that its "
        "score is too good"
    )
    assert lines["Not told apart from the best"] == (
        "none: mean is better than the 2 others in transfer, p: MR (accuracy)"
    )
    assert lines["Effects"].startswith("pooler: mean +20.00 (+")
    assert lines["Effects"].endswith(")‡ against first")


@pytest.mark.parametrize("undefined", [False, True])
def test_an_axis_that_changes_no_score_is_named(study_of, undefined):
    scores = {seed: {"MR": 60.0 + seed} for seed in (1, 2, 3)}
    if undefined:
        for by_task in scores.values():
            by_task["CR"] = float("nan")
    lines = answers(study_of({"first": scores, "mean": scores}, [POOLER], "first"))
    assert lines["Mind"] == (
        "the axis `pooler` changes no score: cells that differ in it alone are identical in every task"
    )


def test_a_tie(study_of):
    lines = answers(study_of(around(ALIKE), [POOLER], "first", items=True))
    assert lines["Best"].startswith("last: MR (accuracy) 80.12 (")
    assert (
        lines["Not told apart from the best"]
        == "mean (1 of 2 others; transfer, p: MR (accuracy))"
    )


def test_rows_of_another_encoder_are_compared_with_the_best_cell(study_of):
    other = study_of(around({"first": 90.0}), [POOLER], "first", items=True)
    other = with_fields(other, encoder="other")
    scores = {}
    for run in other.cells[0].runs:
        scores[run.seed] = run.scores

    data = study_of(around(LEVELS), [POOLER], "first", items=True)
    data = with_added(data, lambda run: scores[run.seed], "first")
    lines = answers(data)
    assert lines["Not told apart from the best"] == (
        "none; better than mean in transfer, p: MR (accuracy): first/other"
    )


def test_a_winner_on_development_data_that_is_not_the_best_on_test_data(study_of):
    test = around({"first": 70.0, "mean": 65.0, "last": 75.0})
    numbers = with_further_task(around(LEVELS, task="D"), test)
    data = study_of(numbers, [POOLER], "first", items=True, decide=Decide())
    lines = answers(with_fields(data, task="D", protocol=DEVELOPMENT))
    assert lines["Best"].startswith("mean: MR (accuracy) 65.02 (")
    assert lines["Best"].endswith("chosen among 3 cells on development data")
    assert lines["Not told apart from the best"] == (
        "none; better than mean in transfer, p: MR (accuracy): last; first"
    )
    assert lines["Mind"] == "mean is not the best on test data"


def test_a_degenerate_cell_is_named_and_is_not_the_best(study_of):
    data = study_of(around(LEVELS), [POOLER], "first", items=True)
    lines = answers(with_fields(data, "mean", degenerate="one class only"))
    assert lines["Best"].startswith("last: MR (accuracy) 70.10 (")
    assert (
        "2 cells that can be compared, of 3 that were tried, on this very test data"
        in lines["Best"]
    )
    assert lines["Mind"] == "degenerate scores of mean (one class only)"


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        ("failed", "1 of 9 runs failed; 2 seeds only (mean)"),
        ("waiting", "1 of 9 runs waiting; 2 seeds only (mean)"),
    ],
)
def test_a_run_that_is_missing(study_of, status, problem):
    numbers = around(LEVELS)
    numbers["mean"][2] = {}
    lines = answers(study_of(numbers, [POOLER], "first", {"mean": status}, items=True))
    assert lines["Best"].startswith("last: ")
    assert lines["Mind"].startswith(problem)


def test_one_cell_has_nothing_to_be_compared_with(study_of):
    numbers = around({"mean": 80.0})
    data = study_of(numbers, [POOLER], "mean", items=True)
    lines = answers(data)
    assert [*lines] == ["Best"]
    assert lines["Best"].endswith(") over 3 seeds; the only cell")
    assert "widened" not in lines["Best"]


def test_an_effect_that_is_lost_to_the_correction_says_so(study_of):
    numbers = {
        "first": {1: {"MR": 70.0}, 2: {"MR": 70.4}, 3: {"MR": 69.8}},
        "mean": {1: {"MR": 71.0}, 2: {"MR": 71.8}, 3: {"MR": 70.6}},
        "last": {1: {"MR": 70.3}, 2: {"MR": 69.9}, 3: {"MR": 70.1}},
    }
    effects = answers(study_of(numbers, [POOLER], "first"))["Effects"]
    assert effects.endswith(" against first, not significant after correction")


def test_a_study_that_has_not_begun(study_of):
    numbers = {cell: {1: {}, 2: {}} for cell in LEVELS}
    lines = answers(
        study_of(numbers, [POOLER], "first", dict.fromkeys(LEVELS, "waiting"))
    )
    assert lines == {
        "Mind": "6 of 6 runs waiting",
    }


def test_without_comparisons_nothing_is_said_to_stand_out(study_of, monkeypatch):
    data = study_of(around(LEVELS), [POOLER], "first", items=True)
    monkeypatch.setattr(rank_groups, "MOST_ROWS", 2)
    lines = answers(data)
    unknown = lines["Not told apart from the best"]
    assert unknown.startswith("unknown in transfer, p: MR (accuracy): there are 3 rows")
