from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from scipy import stats
from sentbed.protocols import Items, Score
from sentbed_report.statistics.letter_groups import (
    letter_groups,
    letters_of,
    not_comparable,
    rank_intervals,
)
from sentbed_report.statistics.ranks_over_tasks import friedman, nemenyi_groups
from sentbed_report.statistics.significance import Judged
from sentbed_report.study import rank_groups as module
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData
from toy_study import with_fields, with_scores


@pytest.fixture
def posthocs():
    return pytest.importorskip(
        "scikit_posthocs", reason="needs scikit-posthocs, see requirements/dev.txt"
    )


def random_differences(rows, seed, share):
    """Which pairs differ, at random: most of these are no sets of neighbours in any order."""
    numbers = np.random.default_rng(seed).random((rows, rows))
    upper = np.triu(numbers < share, 1)
    return upper | upper.T


def groups_of(data):
    groups = summarise(data, resamples=200)[0].groups
    assert groups is not None
    return groups


# --- letters -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_rows_share_a_letter_if_and_only_if_they_do_not_differ(seed):
    rows = 2 + seed % 12
    different = random_differences(rows, seed, (0.2, 0.5, 0.8)[seed % 3])
    groups = letter_groups(different)
    assert set().union(*groups) == set(range(rows))
    for pair in combinations(range(rows), 2):
        is_shared = any(set(pair) <= set(group) for group in groups)
        assert is_shared == (not different[pair])

    assert list(groups) == sorted(groups)


def fewest_by_trying(different):
    """The least number of sets of rows that do not differ which have every row and every such pair."""
    rows = range(len(different))
    needed = {(row, row) for row in rows}
    needed |= {pair for pair in combinations(rows, 2) if not different[pair]}
    sets = []
    for size in range(1, len(different) + 1):
        for members in combinations(rows, size):
            pairs = {(row, row) for row in members} | set(combinations(members, 2))
            if pairs <= needed:
                sets.append(pairs)

    for number in range(1, len(needed) + 1):
        for chosen in combinations(sets, number):
            if needed <= set().union(*chosen):
                return number

    raise AssertionError(needed)


@pytest.mark.parametrize("seed", range(30))
def test_no_display_has_fewer_letters(seed):
    different = random_differences(2 + seed % 4, 100 + seed, 0.4)
    groups = letter_groups(different)
    assert groups is not None
    assert len(groups) == fewest_by_trying(different)


def test_a_largest_set_whose_pairs_others_have_is_no_letter(posthocs):
    """A triangle with a row on each of its sides: the triangle is a largest set, and needs no letter."""
    different = ~np.eye(6, dtype=bool)
    for first, second in (
        (0, 1),
        (0, 2),
        (1, 2),
        (0, 3),
        (1, 3),
        (1, 4),
        (2, 4),
        (0, 5),
        (2, 5),
    ):
        different[first, second] = different[second, first] = False

    assert letter_groups(different) == ((0, 1, 3), (0, 2, 5), (1, 2, 4))
    # scikit-posthocs, which does not sweep, has a fourth.
    letters = posthocs.compact_letter_display(np.where(different, 0.01, 0.5))
    assert set(map(len, letters)) == {4}


@pytest.mark.parametrize("seed", range(10))
def test_of_ordered_means_the_letters_are_those_of_scikit_posthocs(seed, posthocs):
    means = np.sort(np.random.default_rng(seed).normal(size=9))[::-1]
    different = abs(means[:, None] - means) > 0.7
    groups = letter_groups(different)
    assert groups is not None
    expected = posthocs.compact_letter_display(np.where(different, 0.01, 0.5))
    for row, letters in enumerate(expected):
        numbers = [number for number, group in enumerate(groups) if row in group]
        assert letters_of(numbers) == letters.replace(" ", "")


def test_ends_all_alike_all_apart_and_too_many():
    assert letter_groups(np.zeros((3, 3), bool)) == ((0, 1, 2),)
    assert letter_groups(~np.eye(3, dtype=bool)) == ((0,), (1,), (2,))
    # k pairs that differ and nothing else: 2 ** k largest sets.
    pair = np.array([[0, 1], [1, 0]])
    pairs = np.kron(np.eye(10), pair)
    assert letter_groups(pairs.astype(bool)) is None


def test_letters_go_on_after_z():
    assert letters_of([0, 25]) == "az"
    assert letters_of([25, 26, 27, 26 + 26 * 26]) == "z aa ab aaa"


# --- intervals of ranks ------------------------------------------------------------------------------------


def test_rank_intervals_are_those_counted_by_hand():
    # The first is better than the last two, the second than the last; nothing else is known.
    better = np.zeros((4, 4), bool)
    better[0, 2] = better[0, 3] = better[1, 3] = True
    assert rank_intervals(better) == [(1, 2), (1, 3), (2, 4), (3, 4)]


def score_of(task, items):
    protocol = {"encoder": {}, "evaluator": {"id": "p", "aggregation": "all"}}
    return Score(task, "x", items.value(), protocol, "en", "e", items)


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
    assert (best.letters, groups.pairs) == ("a", 3)
    assert (best.from_best, best.low, best.high) == (0, 0, 0)
    for row in others:
        assert row.low < row.from_best < row.high
        assert row.from_best == pytest.approx(row.mean - best.mean)


def test_where_lower_is_better_the_lowest_is_first_and_better():
    study = spearman_study([[2.0], [0.1]], 3, seed=1)
    rows = groups_of(with_fields(study, direction="lower")).rows
    assert [(row.name, row.letters, row.ranks) for row in rows] == [
        ("c0", "a", "1"),
        ("c1", "b", "2"),
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
        ("d", "degenerate: one class only"),
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
            "3 rows have 3 pairs; up to 2 rows are compared with each other",
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


def test_the_row_with_the_most_pairs_without_a_p_value_goes_first():
    pairs = {pair: Judged(p_value=0.5) for pair in combinations(range(4), 2)}
    for first, second in ((0, 2), (1, 2), (2, 3), (0, 1)):
        pairs[first, second] = Judged(reason=f"{first} and {second}")

    assert not_comparable(pairs) == {2: "0 and 2; 1 and 2; 2 and 3", 1: "0 and 1"}


# --- many tasks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_friedman_and_nemenyi_are_those_of_scipy_and_scikit_posthocs(seed, posthocs):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(6, 9))
    values += 0.8 * np.arange(6)[::-1, None]
    if seed == 3:  # ties
        values = values.round()
    test = friedman(values)
    expected = stats.friedmanchisquare(*values)
    assert (test.statistic, test.p_value) == pytest.approx(
        (expected.statistic, expected.pvalue)
    )
    assert test.ranks == pytest.approx(stats.rankdata(-values, axis=0).mean(axis=1))
    order = np.argsort(test.ranks, kind="stable")
    p_values = posthocs.posthoc_nemenyi_friedman(values.T).to_numpy()[
        np.ix_(order, order)
    ]
    groups = nemenyi_groups(
        [test.ranks[row] for row in order], test.critical, test.p_value
    )
    assert groups == letter_groups(p_values < 0.05)


def test_the_critical_difference_is_that_of_demsars_example():
    """Four classifiers over 14 data sets: 1.25 (Demšar, 2006, section 3.2.2); q is 2.569 there."""
    values = np.random.default_rng(0).normal(size=(4, 14))
    expected = 2.569 * math.sqrt(4 * 5 / (6 * 14))
    assert friedman(values).critical == pytest.approx(expected, rel=1e-3)


def test_without_a_difference_by_friedman_there_is_one_group():
    assert nemenyi_groups([1.0, 3.0, 5.0], 0.5, 0.2) == ((0, 1, 2),)
    test = friedman([[1.0, 2.0]] * 3)
    assert (test.statistic, test.p_value, test.ranks) == (0, 1, (2, 2, 2))


def test_ranks_over_tasks_leave_the_average_out():
    ranks = groups_of(
        spearman_study([[0.2] * 6, [0.6] * 6, [3.0] * 6], 1, seed=2)
    ).tasks
    assert ranks.tasks == tuple(f"T{task}" for task in range(6))
    assert [row.name for row in ranks.rows] == ["c0", "c1", "c2"]
    assert sum(row.mean_rank for row in ranks.rows) == pytest.approx(6)
    assert ranks.significant


@pytest.mark.parametrize(("tasks", "cells"), [(4, 4), (6, 2)])
def test_few_tasks_or_rows_have_no_ranks_over_tasks(tasks, cells):
    study = spearman_study([[0.5] * tasks] * cells, 1, seed=3, items=30)
    assert groups_of(study).tasks is None


def test_a_row_without_a_task_is_left_out_of_the_ranks_over_tasks():
    study = spearman_study([[0.5] * 6] * 4, 1, seed=4, items=30)

    def without_a_task(run, score):
        return None if (run.cell, score.task) == ("c1", "T5") else score

    ranks = groups_of(with_scores(study, without_a_task)).tasks
    assert ranks.left == (("c1", "it has no score of T5"),)
    assert len(ranks.rows) == 3
