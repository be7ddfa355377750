"""The chosen cell: by which scores, among how many, and what is said of it."""

from __future__ import annotations

import json
import math
from statistics import fmean, stdev

import attrs
import numpy as np
import pytest
from scipy import stats
from sentbed.protocols import Items, Score
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.deciding_score import Decide
from sentbed_report.study.exports import to_json
from sentbed_report.study.selection import select
from sentbed_report.study_page.choice_section import choice_section
from toy_study import with_added, with_fields, with_scores

ALL = Decide()


def score(task, value, items=None, **more):
    """A score on development data if its task says so."""
    split = "dev" if task.endswith("-dev") else "test"
    protocol = {"encoder": {}, "evaluator": {"id": "p", "split": split}}
    return Score(task, "accuracy", value, protocol, "en", "transfer", items, **more)


@pytest.fixture
def make(study_of):
    """Make a study of cell -> seed -> task -> score; tasks that end in `-dev` are development data."""

    def study_with(numbers, decide=ALL):
        data = study_of(
            numbers, decide=decide, statuses=dict.fromkeys(numbers, "waiting")
        )
        return with_scores(
            data, lambda _, original: score(original.task, original.value)
        )

    return study_with


def chosen(data):
    selection = select(data, summarise(data))
    assert selection is not None
    return selection


THREE = {
    "a": {
        1: {"X-dev": 70.0, "X": 60.0, "Y": 50.0},
        2: {"X-dev": 72.0, "X": 61.0, "Y": 52.0},
    },
    "b": {
        1: {"X-dev": 80.0, "X": 55.0, "Y": 51.0},
        2: {"X-dev": 81.0, "X": 57.0, "Y": 51.0},
    },
    "c": {
        1: {"X-dev": 75.0, "X": 90.0, "Y": 90.0},
        2: {"X-dev": 79.0, "X": 90.0, "Y": 90.0},
    },
}


def test_the_best_on_development_data_is_chosen_and_reported_on_test_data(make):
    selection = chosen(make(THREE))
    # `c` is the best on test data, which nobody looks at.
    assert (selection.cell, selection.among, selection.seeds) == ("b", 3, 2)
    assert selection.score == pytest.approx(80.5)
    assert selection.std == pytest.approx(stdev([80, 81]))
    assert selection.tasks == ("X-dev (transfer, accuracy)",)
    assert [(score.task, score.mean) for score in selection.scores] == [
        ("X", 56.0),
        ("Y", 51.0),
        ("AVG", 53.5),
    ]
    assert selection.complete
    decided = "Decided by X-dev (transfer, accuracy): 80.50, the best of 3 cells."
    assert choice_section(selection).notes[0] == decided


def test_nothing_is_chosen_without_being_asked_for(make):
    data = make(THREE, None)
    assert select(data, summarise(data)) is None
    assert json.loads(to_json(data, summarise(data)))["chosen"] is None


def test_of_equally_good_cells_the_first_in_the_recipes_order_is_chosen(make):
    # 0.1 + 0.2 and 0.3: as means they differ in the last digit alone.
    data = make(
        {
            "z": {1: {"D-dev": 0.1}, 2: {"D-dev": 0.2}},
            "a": {1: {"D-dev": 0.15}, 2: {"D-dev": 0.15}},
        }
    )
    selection = chosen(data)
    assert (selection.cell, selection.ties) == ("z", ("a",))


def test_lower_is_better_where_the_score_says_so(make):
    selection = chosen(with_fields(make(THREE), direction="lower"))
    assert selection.cell == "a"
    assert selection.score == pytest.approx(-71.0)
    assert selection.tasks == ("X-dev (transfer, accuracy, negated)",)


def test_cells_that_cannot_be_chosen_say_why_and_count_all_the_same(make):
    worse = {"D-dev": 50.0, "E-dev": 50.0}
    better = {"D-dev": 99.0, "E-dev": 99.0}
    data = make(
        {
            "short": {1: better, 2: {}},
            "good": {1: worse, 2: worse},
            "lacks": {1: {"D-dev": 99.0}, 2: better},
            "constant": {1: better, 2: better},
            "broken": {1: better, 2: better},
        }
    )

    def change(run, score):
        if run.cell == "constant":
            return attrs.evolve(score, degenerate="one class only")
        return (
            attrs.evolve(score, value=math.inf)
            if run.cell == "broken" and run.seed == 2
            else score
        )

    selection = chosen(with_scores(data, change))
    assert (selection.cell, selection.among, selection.complete) == ("good", 5, False)
    assert dict(selection.left) == {
        "short": "it has 1 seed of 2",
        "lacks": "it has no score of E-dev under every seed",
        "constant": "a deciding score is not finite",
        "broken": "a deciding score is not finite",
    }
    # `lacks`, `constant` and `broken` were tried, and are not what it is better than.
    assert selection.compared == 1
    assert choice_section(selection).notes[0].endswith("the best of 1 cell so far.")


@pytest.mark.parametrize("decide", [ALL, Decide(tasks=("D-dev",))])
def test_the_same_task_of_another_evaluator_is_another_deciding_task(make, decide):
    numbers = {"good": {1: {"D-dev": 60.0}}, "lacks": {1: {"D-dev": 70.0}}}

    def other(run):
        if run.cell == "lacks":
            return []
        return [attrs.evolve(run.scores[0], evaluator="other", value=50.0)]

    selection = chosen(with_added(make(numbers, decide), other))
    assert (selection.cell, selection.compared) == ("good", 1)
    assert selection.left == (("lacks", "it has no score of D-dev under every seed"),)


def test_named_tasks_without_a_common_unit_choose_no_cell(make):
    data = make(
        {
            cell: {1: {"S-dev": value, "A-dev": -0.2}}
            for cell, value in (("a", 78.0), ("b", 70.0))
        }
    )
    data = with_fields(data, task="A-dev", metric="alignment", direction="lower")
    selection = chosen(attrs.evolve(data, decide=Decide(("S-dev", "A-dev"))))
    assert (selection.cell, selection.scores) == ("", ())
    assert (
        "no common unit, and so no mean: S-dev (transfer, accuracy), A-dev (transfer, alignment, negated)"
        in selection.reason
    )
    # Without names, the first one says in which unit.
    alone = chosen(data)
    assert (alone.cell, alone.score, alone.tasks) == (
        "a",
        78.0,
        ("S-dev (transfer, accuracy)",),
    )


RIGHT = np.repeat([1.0, 0.0], 15)


@pytest.mark.parametrize(
    ("items", "low", "high"),
    [
        (Items("mean", RIGHT), 0.0, 100.0),
        (Items("mean", RIGHT, scale=1.0), 0.0, 1.0),
        (Items("spearman", np.arange(30.0), RIGHT), -100.0, 100.0),
        (Items("f1", RIGHT, RIGHT), 0.0, 100.0),
        # How large items can be that are neither right nor wrong is not known.
        (Items("mean", 2 * RIGHT), None, None),
        (None, None, None),
    ],
)
def test_an_interval_ends_where_the_metric_ends(make, items, low, high):
    seeds = {1: {"D-dev": 1.0, "X": 0.2}, 2: {"D-dev": 1.0, "X": 90.0}}
    (selection,) = chosen(with_fields(make({"a": seeds}), task="X", items=items)).scores
    if low is None:
        half = stats.t.ppf(0.975, 1) * 89.8 / 2
        assert selection.low <= selection.mean - half
        assert selection.high >= selection.mean + half
    else:
        assert (selection.low, selection.high) == (low, high)


def test_an_interval_without_items_is_over_the_seeds(make):
    values = (60.0, 63.0, 61.0)
    (selection,) = chosen(
        make({"a": {s: {"D-dev": 1.0, "X": v} for s, v in enumerate(values)}})
    ).scores
    half = stats.t.ppf(0.975, 2) * stdev(values) / math.sqrt(3)
    assert (selection.over, selection.seeds) == ("seeds", 3)
    assert (selection.low, selection.high) == pytest.approx(
        (fmean(values) - half, fmean(values) + half)
    )
    (alone,) = chosen(make({"a": {1: {"D-dev": 1.0, "X": 60.0}}})).scores
    assert (alone.low, alone.high, alone.over) == (None, None, "")


def test_the_interval_of_the_best_of_cells_is_as_wide_as_their_number_asks(make):
    selection = chosen(make(THREE))
    values = [THREE["b"][seed]["X"] for seed in (1, 2)]
    error = stdev(values) / math.sqrt(2)
    half = stats.t.ppf(1 - 0.05 / 3 / 2, 1) * error
    assert selection.confidence == pytest.approx(1 - 0.05 / 3)

    mean = fmean(values)
    first = selection.scores[0]
    assert (first.low, first.high) == pytest.approx((mean - half, mean + half))
    assert not selection.fresh_seeds


def test_the_chosen_cell_is_reported_on_its_fresh_seeds(make):
    data = make(THREE)
    fresh = {7: 40.0, 8: 44.0, 9: 45.0}

    def with_fresh_seeds(cell):
        if cell.name != "b":
            return cell

        run = cell.runs[0]
        runs = tuple(
            attrs.evolve(run, seed=seed, scores=(score("X", value),))
            for seed, value in fresh.items()
        )
        return attrs.evolve(cell, confirmation=runs)

    cells = [with_fresh_seeds(cell) for cell in data.cells]
    selection = chosen(attrs.evolve(data, cells=tuple(cells)))
    (only,) = selection.scores
    half = stats.t.ppf(0.975, 2) * stdev(fresh.values()) / math.sqrt(3)
    mean = fmean(fresh.values())
    assert (
        selection.cell,
        selection.seeds,
        selection.fresh_seeds,
        selection.confidence,
    ) == (
        "b",
        2,
        (7, 8, 9),
        0.95,
    )
    assert (only.mean, only.seeds) == (pytest.approx(mean), 3)
    assert (only.low, only.high) == pytest.approx((mean - half, mean + half))
    # Until all have finished, the interval is that of the seeds which were seen.
    waiting = [
        attrs.evolve(run, status="waiting", scores=())
        for run in cells[1].confirmation[:1]
    ]
    cells[1] = attrs.evolve(
        cells[1], confirmation=(*waiting, *cells[1].confirmation[1:])
    )
    assert not chosen(attrs.evolve(data, cells=tuple(cells))).fresh_seeds
