from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import attrs
import numpy as np
import pytest
from scipy import stats
from sentbed.protocols import Items, Score
from sentbed_report.statistics.letter_groups import letter_groups, letters_of, not_comparable, rank_intervals
from sentbed_report.statistics.ranks_over_tasks import friedman, nemenyi_groups
from sentbed_report.statistics.resampling import value
from sentbed_report.statistics.significance import Judged
from sentbed_report.study import rank_groups as module
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.rank_groups import RankGroups
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData


@pytest.fixture
def posthocs() -> Any:
    return pytest.importorskip("scikit_posthocs", reason="needs scikit-posthocs, see requirements/dev.txt")


def random_differences(count: int, seed: int, share: float = 0.5) -> np.ndarray:
    """Which pairs differ, at random: most of these are no sets of neighbours in any order."""
    upper = np.triu(np.random.default_rng(seed).random((count, count)) < share, 1)
    return upper | upper.T


def groups_of(data: StudyData, table: int = 0) -> RankGroups:
    found = summarise(data, resamples=200)[table].groups
    assert found is not None
    return found


# --- letters -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_rows_share_a_letter_if_and_only_if_they_do_not_differ(seed: int) -> None:
    count = 2 + seed % 12
    different = random_differences(count, seed, (0.2, 0.5, 0.8)[seed % 3])
    groups = letter_groups(different)
    assert groups is not None
    assert {row for group in groups for row in group} == set(range(count))
    for first, second in combinations(range(count), 2):
        shared = any(first in group and second in group for group in groups)
        assert shared == (not different[first, second])
    assert list(groups) == sorted(groups)


def fewest_by_trying(different: np.ndarray) -> int:
    """The least number of sets of rows that do not differ which have every row and every such pair."""
    count = len(different)
    allowed = [
        rows
        for size in range(1, count + 1)
        for rows in combinations(range(count), size)
        if not any(different[pair] for pair in combinations(rows, 2))
    ]
    wanted = {(row, row) for row in range(count)}
    wanted |= {pair for pair in combinations(range(count), 2) if not different[pair]}
    having = [{(a, b) for a in rows for b in rows if a <= b} for rows in allowed]
    for size in range(1, len(wanted) + 1):
        if any(wanted <= set().union(*chosen) for chosen in combinations(having, size)):
            return size
    raise AssertionError(wanted)


@pytest.mark.parametrize("seed", range(30))
def test_no_display_has_fewer_letters(seed: int) -> None:
    different = random_differences(2 + seed % 4, 100 + seed, 0.4)
    groups = letter_groups(different)
    assert groups is not None
    assert len(groups) == fewest_by_trying(different)


def test_a_largest_set_whose_pairs_others_have_is_no_letter(posthocs: Any) -> None:
    """A triangle with a row on each of its sides: the triangle is a largest set, and needs no letter."""
    alike = [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (1, 4), (2, 4), (0, 5), (2, 5)]
    different = ~np.eye(6, dtype=bool)
    for first, second in alike:
        different[first, second] = different[second, first] = False
    assert letter_groups(different) == ((0, 1, 3), (0, 2, 5), (1, 2, 4))
    # scikit-posthocs, which does not sweep, has a fourth.
    told = posthocs.compact_letter_display(np.where(different, 0.01, 0.5))
    assert {len(letters) for letters in told} == {4}


@pytest.mark.parametrize("seed", range(10))
def test_of_ordered_means_the_letters_are_those_of_scikit_posthocs(seed: int, posthocs: Any) -> None:
    means = np.sort(np.random.default_rng(seed).normal(size=9))[::-1]
    different = abs(means[:, None] - means) > 0.7
    groups = letter_groups(different)
    assert groups is not None
    expected = posthocs.compact_letter_display(np.where(different, 0.01, 0.5))
    ours = [letters_of([n for n, group in enumerate(groups) if row in group]) for row in range(9)]
    assert ours == [letters.replace(" ", "") for letters in expected]


def test_ends_all_alike_all_apart_and_too_many() -> None:
    assert letter_groups(np.zeros((3, 3), bool)) == ((0, 1, 2),)
    assert letter_groups(~np.eye(3, dtype=bool)) == ((0,), (1,), (2,))
    # k pairs that differ and nothing else: 2 ** k largest sets.
    pairs = np.kron(np.eye(10), np.array([[0, 1], [1, 0]])).astype(bool)
    assert letter_groups(pairs) is None


def test_letters_go_on_after_z() -> None:
    assert letters_of([0, 25]) == "az"
    assert letters_of([25, 26, 27, 26 + 26 * 26]) == "z aa ab aaa"


# --- intervals of ranks ------------------------------------------------------------------------------------


def test_rank_intervals_are_those_counted_by_hand() -> None:
    # The first is better than the last two, the second than the last; nothing else is known.
    better = np.zeros((4, 4), bool)
    better[0, 2] = better[0, 3] = better[1, 3] = True
    assert rank_intervals(better) == [(1, 2), (1, 3), (2, 4), (3, 4)]


def spearman_study(
    noise: Sequence[Sequence[float]], seeds: int, rng: np.random.Generator, items: int = 120
) -> StudyData:
    """Cells whose predictions have `noise[cell][task]`; items are hard for all, and seeds differ."""
    cells = []
    for name, of_tasks in enumerate(noise):
        runs = []
        for seed in range(seeds):
            scores = []
            for task, amount in enumerate(of_tasks):
                shared = np.random.default_rng(task)
                gold, hard = shared.normal(size=(2, items))
                found = Items("spearman", gold, gold + 0.5 * hard + amount * rng.normal(size=items))
                said = {"encoder": {}, "evaluator": {"id": "p", "aggregation": "all"}}
                scores.append(Score(f"T{task}", "spearman", value(found), said, "en", "sts", found))
            runs.append((seed, tuple(scores)))
        cells.append((f"c{name}", runs))
    return _study(cells)


def _study(cells: Sequence[tuple[str, Sequence[tuple[int, tuple[Score, ...]]]]]) -> StudyData:
    found = tuple(
        CellInfo(name, {}, tuple(CellRun(name, seed, "finished", scores=scores) for seed, scores in runs))
        for name, runs in cells
    )
    return StudyData("toy", (), found, None, tuple(seed for seed, _ in cells[0][1]))


@pytest.mark.slow
@pytest.mark.parametrize("truth", [(0.0, 0.0, 0.4, 1.5), (0.0, 0.0, 0.0, 0.0)])
def test_intervals_hold_all_true_ranks_at_once(truth: Sequence[float]) -> None:
    """Cells equal in truth may have either order; at most 5 % of studies tell a wrong pair apart."""
    seed, studies = 20261123, 150
    rng = np.random.default_rng(seed)
    wrong = decided = 0
    for _ in range(studies):
        hard = rng.normal(size=60)
        cells = []
        for name, level in enumerate(truth):
            # What is due to the seed, to the item, and to both.
            trained, liked = rng.normal(scale=0.1, size=3), rng.normal(scale=0.4, size=60)
            runs = []
            for one in range(3):
                found = level + trained[one] + hard + liked + rng.normal(scale=0.5, size=60)
                items = Items("mean", found, scale=1.0)
                said = {"encoder": {}, "evaluator": {"id": "p"}}
                runs.append((one, (Score("T", "x", value(items), said, "en", "e", items),)))
            cells.append((f"c{name}", runs))
        for row in (rows := groups_of(_study(cells)).rows):
            level = truth[int(row.name[1:])]
            better, worse = (sum(other > level for other in truth), sum(other < level for other in truth))
            if row.lowest_rank > 1 + better or row.highest_rank < len(truth) - worse:
                wrong += 1
                break
        decided += sum(row.ranks == "1" for row in rows)
    print(f"seed {seed}: {wrong} of {studies} wrong, the best found in {decided}")
    # 5 % and three standard errors.
    assert wrong / studies <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / studies)
    assert max(truth) == 0 or decided / studies > 0.5


# --- tables ------------------------------------------------------------------------------------------------


def test_groups_are_of_the_average_best_first() -> None:
    found = groups_of(spearman_study([[2.0] * 3, [0.3] * 3, [0.32] * 3], 2, np.random.default_rng(0)))
    assert [row.name for row in found.rows] == ["c1", "c2", "c0"]
    assert found.rows[0].letters == "a"
    assert found.pairs == 3
    best = found.rows[0]
    assert (best.from_best, best.low, best.high) == (0, 0, 0)
    for row in found.rows[1:]:
        assert row.low < row.from_best < row.high
        assert row.from_best == pytest.approx(row.mean - best.mean)


def test_where_lower_is_better_the_lowest_is_first_and_better() -> None:
    study = spearman_study([[2.0], [0.1]], 3, np.random.default_rng(1))
    cells = [
        attrs.evolve(
            cell,
            runs=tuple(
                attrs.evolve(run, scores=tuple(attrs.evolve(s, direction="lower") for s in run.scores))
                for run in cell.runs
            ),
        )
        for cell in study.cells
    ]
    found = groups_of(attrs.evolve(study, cells=tuple(cells)))
    assert [(row.name, row.letters, row.ranks) for row in found.rows] == [("c0", "a", "1"), ("c1", "b", "2")]


def test_what_has_not_finished_or_is_degenerate_is_left_out_with_the_reason(
    study_of: Callable[..., StudyData],
) -> None:
    numbers = {
        "a": {1: {"MR": 60.0}, 2: {"MR": 61.0}},
        "b": {1: {"MR": 80.0}, 2: {"MR": 80.5}},
        "c": {1: {"MR": 70.0}, 2: {}},
        "d": {1: {"MR": 50.0}, 2: {"MR": 50.0}},
    }
    data = study_of(numbers, items=True, statuses={"c": "running"})
    broken = data.cells[3].runs[0]
    scores = (attrs.evolve(broken.scores[0], degenerate="one class only"),)
    runs = (attrs.evolve(broken, scores=scores), data.cells[3].runs[1])
    cells = (*data.cells[:3], attrs.evolve(data.cells[3], runs=runs))
    found = groups_of(attrs.evolve(data, cells=cells))
    assert [row.name for row in found.rows] == ["b", "a"]
    assert found.left == (
        ("c", "it has not finished"),
        ("d", "degenerate: one class only (seed 1)"),
    )


def test_a_row_of_other_items_is_left_out(study_of: Callable[..., StudyData]) -> None:
    data = study_of({name: {1: {"MR": 60.0}} for name in "abc"}, items=True)
    run = data.cells[1].runs[0]
    other = attrs.evolve(run.scores[0], items=Items("mean", np.arange(7.0)))
    cells = (data.cells[0], attrs.evolve(data.cells[1], runs=(attrs.evolve(run, scores=(other,)),)))
    found = groups_of(attrs.evolve(data, cells=(*cells, data.cells[2])))
    assert {row.name for row in found.rows} == {"a", "c"}
    (left,) = found.left
    assert left[0] == "b"
    assert "cannot be paired" in left[1]


def test_scores_without_items_and_one_seed_have_no_groups_and_say_why(
    study_of: Callable[..., StudyData],
) -> None:
    found = groups_of(study_of({name: {1: {"MR": 60.0}} for name in "abc"}))
    assert (found.rows, found.reason) == ((), "there is one seed, and the score has no items")


def test_a_study_may_ask_for_no_groups(study_of: Callable[..., StudyData]) -> None:
    numbers = {name: {1: {"MR": 60.0}, 2: {"MR": 61.0}} for name in "ab"}
    assert summarise(study_of(numbers, groups=False))[0].groups is None
    assert summarise(study_of(numbers))[0].groups is not None


def test_a_single_row_has_no_groups(study_of: Callable[..., StudyData]) -> None:
    numbers = {"a": {1: {"MR": 60.0}, 2: {"MR": 61.0}}, "b": {1: {}, 2: {}}}
    assert summarise(study_of(numbers, statuses={"b": "waiting"}))[0].groups is None


def test_too_many_rows_are_not_compared(
    study_of: Callable[..., StudyData], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 2)
    found = groups_of(study_of({name: {1: {"MR": 60.0}, 2: {"MR": 61.0}} for name in "abc"}))
    assert (found.rows, found.reason) == (
        (),
        "3 rows have 3 pairs; up to 2 rows are compared with each other",
    )


def test_the_row_with_the_most_pairs_without_a_p_value_goes_first() -> None:
    pairs = {pair: Judged(p_value=0.5) for pair in combinations(range(4), 2)}
    for pair in ((0, 2), (1, 2), (2, 3), (0, 1)):
        pairs[pair] = Judged(reason=f"{pair[0]} and {pair[1]}")
    assert not_comparable(pairs) == {2: "0 and 2; 1 and 2; 2 and 3", 1: "0 and 1"}


# --- many tasks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_friedman_and_nemenyi_are_those_of_scipy_and_scikit_posthocs(seed: int, posthocs: Any) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(6, 9)) + 0.8 * np.arange(6)[::-1, None]
    if seed == 3:  # ties
        values = values.round()
    test = friedman(values)
    statistic, p_value, ranks, critical = test.statistic, test.p_value, test.ranks, test.critical
    expected = stats.friedmanchisquare(*values)
    assert (statistic, p_value) == pytest.approx((expected.statistic, expected.pvalue))
    assert ranks == pytest.approx(stats.rankdata(-values, axis=0).mean(axis=1))
    told = posthocs.posthoc_nemenyi_friedman(values.T).to_numpy()
    order = np.argsort(ranks, kind="stable")
    groups = nemenyi_groups([ranks[row] for row in order], critical, p_value)
    for first, second in combinations(range(6), 2):
        shared = any(first in group and second in group for group in groups)
        assert shared == (told[order[first], order[second]] > 0.05)
    assert list(groups) == list(letter_groups(told[np.ix_(order, order)] < 0.05) or ())


def test_the_critical_difference_is_that_of_demsars_example() -> None:
    """Four classifiers over 14 data sets: 1.25 (Demšar, 2006, section 3.2.2); q is 2.569 there."""
    critical = friedman(np.random.default_rng(0).normal(size=(4, 14))).critical
    assert critical == pytest.approx(2.569 * math.sqrt(4 * 5 / (6 * 14)), rel=1e-3)


def test_without_a_difference_by_friedman_there_is_one_group() -> None:
    assert nemenyi_groups([1.0, 3.0, 5.0], 0.5, 0.2) == ((0, 1, 2),)
    test = friedman([[1.0, 2.0]] * 3)
    assert (test.statistic, test.p_value, test.ranks) == (0, 1, (2, 2, 2))


def test_ranks_over_tasks_leave_the_average_out() -> None:
    noise = [[0.2] * 6, [0.6] * 6, [3.0] * 6]
    found = groups_of(spearman_study(noise, 1, np.random.default_rng(2))).tasks
    assert found is not None
    assert found.tasks == tuple(f"T{task}" for task in range(6))
    assert [row.name for row in found.rows] == ["c0", "c1", "c2"]
    assert sum(row.mean_rank for row in found.rows) == pytest.approx(6)
    assert found.significant


@pytest.mark.parametrize(("tasks", "cells"), [(4, 4), (6, 2)])
def test_few_tasks_or_rows_have_no_ranks_over_tasks(tasks: int, cells: int) -> None:
    study = spearman_study([[0.5] * tasks] * cells, 1, np.random.default_rng(3), 30)
    assert groups_of(study).tasks is None


def test_a_row_without_a_task_is_left_out_of_the_ranks_over_tasks() -> None:
    study = spearman_study([[0.5] * 6] * 4, 1, np.random.default_rng(4), 30)
    cell = study.cells[1]
    short = attrs.evolve(cell, runs=tuple(attrs.evolve(run, scores=run.scores[:-1]) for run in cell.runs))
    found = groups_of(attrs.evolve(study, cells=(study.cells[0], short, *study.cells[2:]))).tasks
    assert found is not None
    assert found.left == (("c1", "it has no score of T5"),)
    assert len(found.rows) == 3
