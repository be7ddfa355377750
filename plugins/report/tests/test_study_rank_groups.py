from __future__ import annotations

import math

import numpy as np
import pytest
from sentbed.protocols import Items, Score
from sentbed_common import item_score
from sentbed_report.study import rank_groups as module
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData
from toy_study import with_fields


def groups_of(data):
    groups = summarise(data)[0].groups
    assert groups is not None
    return groups


# --- intervals of ranks ------------------------------------------------------------------------------------


def score_of(task, items):
    protocol = {"encoder": {}, "evaluator": {"id": "p", "aggregation": "all"}}
    return Score(task, "x", item_score(items), protocol, "en", "e", items)


def study_of_scores(cells):
    """Cells c0, c1 and so on with the scores of each seed."""
    infos = []
    for number, of_seeds in enumerate(cells):
        name = f"c{number}"
        runs = [
            CellRun(name, seed, "finished", scores=scores)
            for seed, scores in enumerate(of_seeds)
        ]
        infos.append(CellInfo(name, {}, tuple(runs)))

    return StudyData("toy", (), tuple(infos), None, tuple(range(len(cells[0]))))


def spearman_study(noise, seeds, seed, items=120):
    """Cells whose predictions have `noise[cell][task]`; items are hard for all, and seeds differ."""
    rng = np.random.default_rng(seed)

    def scores(of_tasks):
        result = []
        for task, amount in enumerate(of_tasks):
            gold, hard = np.random.default_rng(task).normal(size=(2, items))
            predicted = gold + 0.5 * hard + amount * rng.normal(size=items)
            result.append(score_of(f"T{task}", Items("spearman", gold, predicted)))

        return tuple(result)

    cells = []
    for of_tasks in noise:
        cells.append([scores(of_tasks) for _ in range(seeds)])

    return study_of_scores(cells)


@pytest.mark.slow
@pytest.mark.parametrize("truth", [(0.0, 0.0, 0.4, 1.5), (0.0, 0.0, 0.0, 0.0)])
def test_intervals_hold_all_true_ranks_at_once(truth):
    """Cells equal in truth may have either order; at most 5 % of studies tell a wrong pair apart."""
    seed, studies = 20261123, 150
    rng = np.random.default_rng(seed)
    wrong = decided = 0
    for _ in range(studies):
        hard = rng.normal(size=60)
        cells = []
        for level in truth:
            # What is due to the seed, to the item, and to both.
            luck, preference = (
                rng.normal(scale=0.1, size=(3, 1)),
                rng.normal(scale=0.4, size=60),
            )
            rows = (
                level + luck + hard + preference + rng.normal(scale=0.5, size=(3, 60))
            )
            cells.append(
                [(score_of("T", Items("mean", row, scale=1.0)),) for row in rows]
            )
        is_wrong = False
        for row in groups_of(study_of_scores(cells)).rows:
            level = truth[int(row.name[1:])]
            lowest = 1 + sum(other > level for other in truth)
            highest = len(truth) - sum(other < level for other in truth)
            is_wrong |= row.lowest_rank > lowest or row.highest_rank < highest
            if row.ranks == "1":
                decided += 1
        if is_wrong:
            wrong += 1

    print(f"seed {seed}: {wrong} of {studies} wrong, the best found in {decided}")
    # 5 % and three standard errors.
    assert wrong / studies <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / studies)
    assert max(truth) == 0 or decided / studies > 0.5


# --- tables ------------------------------------------------------------------------------------------------


def test_groups_are_of_the_average_best_first():
    groups = groups_of(spearman_study([[2.0] * 3, [0.3] * 3, [0.32] * 3], 2, seed=0))
    best, *others = groups.rows
    assert [row.name for row in groups.rows] == ["c1", "c2", "c0"]
    assert (best.beaten, groups.pairs) == (False, 3)
    assert (best.from_best, best.low, best.high) == (0, 0, 0)
    for row in others:
        assert row.low < row.from_best < row.high
        assert row.from_best == pytest.approx(row.mean - best.mean)


def test_where_lower_is_better_the_lowest_is_first_and_better():
    study = spearman_study([[2.0], [0.1]], 3, seed=1)
    rows = groups_of(with_fields(study, direction="lower")).rows
    assert [(row.name, row.beaten, row.ranks) for row in rows] == [
        ("c0", False, "1"),
        ("c1", True, "2"),
    ]


def test_what_cannot_be_compared_is_left_out_with_the_reason(study_of):
    numbers = {
        name: {1: {"MR": 60.0 + place}, 2: {"MR": 61.0}}
        for place, name in enumerate("abcde")
    }
    numbers["c"] = {1: {"MR": 70.0}, 2: {}}
    data = study_of(numbers, items=True, statuses={"c": "running"})
    data = with_fields(data, "d", degenerate="one class only")
    data = with_fields(data, "e", items=Items("mean", np.arange(7.0)))
    groups = groups_of(data)
    assert {row.name for row in groups.rows} == {"a", "b"}
    running, degenerate, (name, reason) = groups.left
    assert (running, degenerate) == (
        ("c", "it has not finished"),
        ("d", "one class only"),
    )
    assert name == "e"
    assert "cannot be paired" in reason


SEED = {"MR": 60.0}


@pytest.mark.parametrize(
    ("numbers", "most_rows", "reason"),
    [
        (
            {name: {1: SEED} for name in "abc"},
            200,
            "there is one seed, and the score has no items",
        ),
        (
            {name: {1: SEED, 2: {"MR": 61.0}} for name in "abc"},
            2,
            "there are 3 rows; up to 2 are compared with each other",
        ),
    ],
)
def test_rows_that_are_not_compared_have_no_groups_and_say_why(
    numbers, most_rows, reason, study_of, monkeypatch
):
    monkeypatch.setattr(module, "MOST_ROWS", most_rows)
    groups = groups_of(study_of(numbers))
    assert (groups.rows, groups.reason) == ((), reason)


def test_a_single_row_has_no_groups(study_of):
    finished = {1: SEED, 2: {"MR": 61.0}}
    single = study_of({"a": finished, "b": {1: {}, 2: {}}}, statuses={"b": "waiting"})
    assert summarise(single)[0].groups is None
    assert summarise(study_of({"a": finished, "b": finished}))[0].groups is not None
