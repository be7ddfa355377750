"""The lines at the top of a study's page and its results, for studies in which the answer was planted."""

from __future__ import annotations

import attrs
import pytest
from sentbed_report.study import rank_groups
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.deciding_score import Decide
from sentbed_report.study.selection import select
from sentbed_report.study.study_data import AxisInfo
from sentbed_report.study_page.answer import NOT_WORSE, answer_lines
from sentbed_report.study_page.results_section import results_section
from toy_study import with_added, with_fields

POOLER = AxisInfo("pooler", ("first", "mean", "last"))
LEVELS = {"first": 60.0, "mean": 80.0, "last": 70.0}
ALIKE = {"first": 60.0, "mean": 80.0, "last": 80.02}
JITTER = (0.1, -0.1, 0.05)
DEVELOPMENT = {"encoder": {}, "evaluator": {"id": "p", "split": "dev"}}


def around(levels, seeds=(1, 2, 3), task="MR"):
    """Scores of each cell near its level, under each seed another one."""
    numbers = {}
    for place, (cell, level) in enumerate(levels.items(), 1):
        numbers[cell] = {}
        for seed in seeds:
            score = level + JITTER[seed * place % 3]
            numbers[cell][seed] = {task: score}

    return numbers


def answers(data):
    """Question -> answers."""
    summaries = summarise(data)
    lines = {}
    question = ""
    for line in answer_lines(data, summaries, select(data, summaries)):
        question = line.question or question
        lines.setdefault(question, []).append(line.answer)

    return lines


def results(data):
    """Cell, tone and rank of each row of the results."""
    (table,) = results_section(data, summarise(data)).tables
    return [(row.cell, row.tone, row.cells[-1]) for row in table.rows]


@pytest.mark.parametrize("baseline", ["first", None])
def test_a_clear_winner(study_of, baseline):
    data = study_of(around(LEVELS), [POOLER], baseline, items=True)
    lines = answers(data)

    assert [*lines] == ["Best", NOT_WORSE]

    (best,) = lines["Best"]

    assert best.startswith("mean: 80.02 accuracy on MR [")
    assert best.endswith(
        "], chosen on the test set, so biased upwards, as the best of 3"
    )
    assert lines[NOT_WORSE] == ["none"]
    assert results(data) == [
        ("mean", "best", "1"),
        ("last", "worse", "2"),
        ("first", "worse", "3"),
    ]


def test_a_tie(study_of):
    data = study_of(around(ALIKE), [POOLER], "first", items=True)
    lines = answers(data)

    assert lines["Best"][0].startswith("last: 80.12 accuracy on MR [")
    assert lines[NOT_WORSE] == ["mean (1 of 2)"]
    assert results(data) == [
        ("last", "best", "1 to 2"),
        ("mean", "alike", "1 to 2"),
        ("first", "worse", "3"),
    ]


def test_rows_of_another_encoder_are_compared_with_the_best_cell(study_of):
    other = study_of(around({"first": 90.0}), [POOLER], "first", items=True)
    other = with_fields(other, encoder="other")
    scores = {}
    for run in other.cells[0].runs:
        scores[run.seed] = run.scores

    data = study_of(around(LEVELS), [POOLER], "first", items=True)
    data = with_added(data, lambda run: scores[run.seed], "first")

    assert (
        "mean is not the best on the test set: first/other better"
        in (answers(data)["Warnings"])
    )


def test_a_winner_on_development_data_that_is_not_the_best_on_test_data(study_of):
    numbers = around(LEVELS, task="D")
    test = around({"first": 70.0, "mean": 65.0, "last": 75.0})
    for cell, of_seeds in numbers.items():
        for seed, scores in of_seeds.items():
            scores.update(test[cell][seed])

    data = study_of(numbers, [POOLER], "first", items=True, decide=Decide())
    lines = answers(with_fields(data, task="D", protocol=DEVELOPMENT))
    (best,) = lines["Best"]

    assert best.startswith("mean: 65.02 accuracy on MR [")
    assert best.endswith("], the best of 3 on development data")
    assert lines["Warnings"] == [
        "mean is not the best on the test set: last; first better"
    ]


def test_a_degenerate_cell_is_named_and_is_not_the_best(study_of):
    data = study_of(around(LEVELS), [POOLER], "first", items=True)
    lines = answers(with_fields(data, "mean", degenerate="one class only"))

    assert lines["Best"][0].startswith("last: 70.10 accuracy on MR [")
    assert "degenerate scores of mean: one class only" in lines["Warnings"]


def test_a_failed_run_is_the_first_warning(study_of):
    numbers = around(LEVELS)
    numbers["mean"][2] = {}
    data = study_of(numbers, [POOLER], "first", {"mean": "failed"}, items=True)
    lines = answers(data)

    assert lines["Best"][0].startswith("last: ")

    failed, few, *_ = lines["Warnings"]

    assert failed == "1 of 9 runs failed"
    assert few.startswith("2 seeds only (mean)")


@pytest.mark.parametrize("begun", [True, False])
def test_while_runs_are_open_nothing_is_claimed_about_the_best(study_of, begun):
    numbers = around(LEVELS)
    numbers["mean"][2] = {}
    statuses = {"mean": "waiting"}
    if not begun:
        numbers = {cell: {1: {}, 2: {}} for cell in LEVELS}
        statuses = dict.fromkeys(LEVELS, "waiting")

    data = study_of(numbers, [POOLER], "first", statuses, items=True)
    lines = answers(data)

    assert [*lines] == ["Warnings"]

    waiting, *_ = lines["Warnings"]

    assert waiting in ("1 of 9 runs waiting", "6 of 6 runs waiting")

    if begun:
        assert {tone for _, tone, _ in results(data)} == {""}


def test_while_fresh_seeds_of_the_best_cell_run_it_is_not_named(study_of):
    data = study_of(around(LEVELS), [POOLER], "first", items=True)
    first, mean, last = data.cells
    fresh = attrs.evolve(mean.runs[0], seed=9, status="running", scores=())
    mean = attrs.evolve(mean, confirmation=(fresh,))
    lines = answers(attrs.evolve(data, cells=(first, mean, last)))

    assert lines == {
        "Warnings": [
            "1 of 10 runs running",
            "the best cell is named when all runs have ended",
        ]
    }


def test_one_cell_has_nothing_to_be_compared_with(study_of):
    data = study_of(around({"mean": 80.0}), [POOLER], "mean", items=True)
    lines = answers(data)

    assert [*lines] == ["Best"]
    assert lines["Best"][0].endswith("]")


def test_an_axis_that_changes_no_score_is_named(study_of):
    scores = {seed: {"MR": 60.0 + seed} for seed in (1, 2, 3)}
    lines = answers(study_of({"first": scores, "mean": scores}, [POOLER], "first"))

    assert any("axis `pooler` changes no score" in line for line in lines["Warnings"])


def test_untrained_weights_are_a_warning(study_of):
    data = study_of(around(LEVELS), [POOLER], "first", items=True)
    cells = []
    for cell in data.cells:
        stages = [{"name": "s", "best_step": 0, "validations": [[0, 1.0]]}]
        runs = [attrs.evolve(run, record={"stages": stages}) for run in cell.runs]
        cells.append(attrs.evolve(cell, runs=tuple(runs)))

    lines = answers(attrs.evolve(data, cells=tuple(cells)))

    assert lines["Warnings"] == [
        "training did not help in 9 of 9 runs: no validation beat the initial score, so the initial weights were "
        "kept"
    ]


def test_many_cells_are_not_compared(study_of, monkeypatch):
    data = study_of(around(LEVELS), [POOLER], "first", items=True)
    monkeypatch.setattr(rank_groups, "MOST_ROWS", 2)
    lines = answers(data)

    assert NOT_WORSE not in lines
    assert lines["Warnings"][0].startswith("no differences are tested: ")
    assert [tone for _, tone, _ in results(data)] == ["", "", ""]
