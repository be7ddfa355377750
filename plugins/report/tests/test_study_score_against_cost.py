"""Scores against costs: the Pareto front against a loop over all pairs, tables, page and exports."""

from __future__ import annotations

import math
import random

import attrs
import pytest
from sentbed.protocols import Score
from sentbed_report.formatting import cost_digits
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.score_against_cost import (
    pareto_front,
    scores_against_cost,
)
from sentbed_report.study.study_data import AxisInfo
from toy_study import with_added, with_fields, with_scores

PROMPT = AxisInfo("prompt", ("short", "long", "eight"))
LAYERS = AxisInfo("layers", ("half", "all"))
# Score, passes and seconds of each cell. On the front by seconds: short half, short all, eight all.
NUMBERS = {
    "short, half": (60.0, 1.0, 50.0),
    "short, all": (65.0, 1.0, 100.0),
    "long, half": (59.0, 1.0, 62.5),
    "long, all": (64.5, 1.0, 125.0),
    "eight, half": (65.0, 8.0, 400.0),
    "eight, all": (70.0, 8.0, 800.0),
}


def cost_of(task, value, unit="per text", direction="lower"):
    protocol = {"encoder": {}, "evaluator": {"id": "encoding-cost"}}
    return Score(
        task,
        unit,
        value,
        protocol,
        "en",
        "encoding-cost",
        direction=direction,
        axis="cost",
    )


@pytest.fixture
def study(study_of):
    """A study of six cells under two seeds whose means are `NUMBERS`, with costs or without."""

    def make(costs=True, **more):
        tasks = {}
        for name, (score, *_) in NUMBERS.items():
            tasks[name] = {seed: {"MR": score + seed - 1.5} for seed in (1, 2)}

        data = study_of(tasks, (PROMPT, LAYERS), "short, all", **more)
        if not costs:
            return data

        def costs_of(run):
            _, passes, seconds = NUMBERS[run.cell]
            return cost_of("seconds", seconds, "per 1,000 texts"), cost_of(
                "passes", passes
            )

        return with_added(data, costs_of)

    return make


def fronts(data):
    (against,) = scores_against_cost(summarise(data), data.cost)
    return {
        point.row.cell: point.front
        for point in against.points
        if point.front is not None
    }


def by_a_loop(costs, scores):
    """Every place but those that another one dominates."""
    pairs = list(zip(costs, scores, strict=True))
    front = set()
    for place, (cost, score) in enumerate(pairs):
        better = []
        for other in pairs:
            if other[0] <= cost and other[1] >= score and other != (cost, score):
                better.append(other)
        if not better:
            front.add(place)

    return front


@pytest.mark.parametrize("seed", range(20))
def test_the_front_is_that_of_a_loop_over_all_pairs(seed):
    draw = random.Random(seed)
    # Few values, so that there are many ties.
    costs = [float(draw.randrange(12)) for _ in range(seed * 3)]
    scores = [float(draw.randrange(12)) for _ in costs]
    front = pareto_front(costs, scores)
    assert set(front) == by_a_loop(costs, scores)
    assert len(front) == len(set(front))
    assert [costs[place] for place in front] == sorted(costs[place] for place in front)


def test_the_first_cost_decides_the_front_unless_the_study_names_another(study):
    by_seconds = {"short, half": 1, "short, all": 2, "eight, all": 3}
    assert fronts(study()) == fronts(study(cost="seconds")) == by_seconds
    assert fronts(study(cost="passes")) == {"short, all": 1, "eight, all": 2}


def test_without_a_name_the_first_cost_of_each_evaluator_is_drawn(study):
    """A cost is not drawn over scores that share the name of its task's data."""

    def search_costs(run):
        score = cost_of("bytes-per-document", len(run.cell), "bytes")
        return (attrs.evolve(score, evaluator="retrieval"),)

    tables = scores_against_cost(summarise(with_added(study(), search_costs)))
    drawn = [table.column.task for table in tables]
    assert sorted(drawn) == ["bytes-per-document", "seconds"]


def test_costs_do_not_decide_the_decimals_of_scores_in_their_table(study_of):
    data = study_of({"a": {1: {"MR": 0.65}}, "b": {1: {"MR": 0.7}}})

    def costs_of(run):
        score = run.scores[0]
        return (attrs.evolve(score, task="seconds", value=1234.5, axis="cost"),)

    (summary,) = summarise(with_added(data, costs_of))
    assert [column.digits for column in summary.columns] == [3, 0]
    assert summary.digits == 3


def test_a_cost_of_which_more_is_better_and_a_score_of_which_less_is(study):
    def turned(_, score):
        if score.axis:
            return attrs.evolve(score, value=-score.value, direction="higher")
        return attrs.evolve(score, value=-score.value, direction="lower")

    data = study()
    assert fronts(with_scores(data, turned)) == fronts(data)


def test_what_has_no_number_or_has_not_finished_has_no_point(study):
    data = study()
    fields = (
        {"degenerate": "all vectors are alike"},
        {"value": math.nan},
    )
    for change in fields:
        (against,) = scores_against_cost(
            summarise(with_fields(data, "eight, all", "MR", **change))
        )
        assert len(against.points) == 5
        assert against.left == ("eight, all",)
        assert {point.row.cell for point in against.points if point.front} == {
            "short, half",
            "short, all",
        }

    *others, cell = data.cells
    waiting = attrs.evolve(cell.runs[1], status="waiting", scores=())
    cell = attrs.evolve(cell, runs=(cell.runs[0], waiting))
    half = attrs.evolve(data, cells=(*others, cell))
    (against,) = scores_against_cost(summarise(half))
    assert (len(against.points), against.left) == (5, ())


def test_costs_are_neither_ranked_nor_averaged_nor_tested(study):
    scores, costs = summarise(study(ranks=()))
    assert [column.task for column in costs.columns] == ["seconds", "passes"]
    for row in costs.rows:
        assert [(cell.place, cell.rank, cell.judged) for cell in row.cells] == [
            (None, None, None)
        ] * 2

    assert any(row.cells[0].place == 1 for row in scores.rows)
    assert any(row.cells[0].judged for row in scores.rows)


@pytest.mark.parametrize(
    ("values", "digits"),
    [
        ((1, 8), 2),
        ((0.0141, 0.00702), 5),
        ((21.8, 243.5), 1),
        ((0.25, 7000), 2),
        ((125e3, 280e3), 0),
        ((0,), 0),
        ((), 0),
    ],
)
def test_each_cost_has_the_decimals_of_its_own_size(values, digits):
    assert cost_digits(values) == digits


def test_means_that_differ_by_rounding_errors_are_equally_good(study_of):
    # The sums of these numbers in floating point differ in their last digit.
    numbers = {
        "cheap": {1: {"MR": 0.3}, 2: {"MR": 0.2}, 3: {"MR": 0.1}},
        "dear": {1: {"MR": 0.1}, 2: {"MR": 0.2}, 3: {"MR": 0.3}},
    }
    seconds = {"cheap": 1.0, "dear": 2.0}
    data = with_added(
        study_of(numbers), lambda run: [cost_of("seconds", seconds[run.cell])]
    )
    (against,) = scores_against_cost(summarise(data))
    cheap, dear = against.points
    assert cheap.score < dear.score
    assert (cheap.front, dear.front) == (1, None)
