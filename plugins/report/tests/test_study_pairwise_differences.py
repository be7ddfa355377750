from __future__ import annotations

import time
from itertools import combinations

import numpy as np
import pytest
from sentbed.protocols import Items, Score
from sentbed_report.resampling import value
from sentbed_report.study.pairwise_differences import TableScores, judge_pairs
from sentbed_report.study.significance import Draws, corrected, judge_average, judge_column

Column = dict[str, dict[int, Score]]


def scored(items: Items | None, number: float = 0.0) -> Score:
    found = number if items is None else value(items)
    return Score("T", "spearman", found, {"encoder": {}, "evaluator": {"id": "p"}}, "en", "e", items)


def column(cells: int, seeds: int, items: int, rng: np.random.Generator) -> Column:
    gold = rng.normal(size=items)
    noise = rng.uniform(0.5, 1.5, cells)
    return {
        f"c{cell}": {
            seed: scored(Items("spearman", gold, gold + noise[cell] * rng.normal(size=items)))
            for seed in range(seeds)
        }
        for cell in range(cells)
    }


def test_each_pair_is_judged_as_against_a_baseline_with_holm_over_all_pairs() -> None:
    cells = column(4, 3, 80, np.random.default_rng(0))
    found = judge_pairs([cells], draws=Draws(300))
    expected = {
        (first, second): judge_column(cells[first], {second: cells[second]}, 300)[second]
        for first, second in combinations(cells, 2)
    }
    assert found == corrected(expected)
    assert len({one.corrected for one in found.values()} - {one.p_value for one in found.values()}) > 1


def test_the_average_is_that_of_judge_average() -> None:
    rng = np.random.default_rng(1)
    tasks = [column(3, 2, 60, rng) for _ in range(3)]
    average: Column = {name: {} for name in tasks[0]}
    found = judge_pairs([*tasks, average], average=True, draws=Draws(200))
    for first, second in combinations(average, 2):
        judged = [judge_column(one[first], {second: one[second]}, 200) for one in tasks]
        expected = judge_average(judged)[second]
        assert found[first, second].p_value == expected.p_value
        assert found[first, second].differences == expected.differences
    assert found == corrected(found)


def test_an_average_that_the_evaluator_gives_stands() -> None:
    rng = np.random.default_rng(2)
    tasks = [column(2, 2, 60, rng) for _ in range(2)]
    given = column(2, 2, 60, rng)
    found = judge_pairs([*tasks, given], average=True, draws=Draws(200))
    assert found == judge_pairs([given], draws=Draws(200))


def test_only_seeds_of_both_are_paired() -> None:
    cells = {"a": {1: scored(None, 1.0), 2: scored(None, 2.0), 3: scored(None, 9.0)}}
    cells["b"] = {2: scored(None, 3.0), 1: scored(None, 2.5)}
    found = judge_pairs([cells])["a", "b"]
    assert dict(found.differences) == {1: 1.5, 2: 1.0}
    assert found.unpaired == (3,)


def test_a_pair_of_other_items_says_why() -> None:
    cells = {name: {1: scored(Items("mean", np.arange(size)))} for name, size in (("a", 5), ("b", 6))}
    found = judge_pairs([cells])["a", "b"]
    assert "cannot be paired" in found.reason
    assert found.p_value is None


def test_rows_are_compared_in_the_order_that_is_asked_for() -> None:
    cells = {name: {seed: scored(None, ord(name) * seed) for seed in (1, 2)} for name in "abc"}
    scores = TableScores((cells,), average=False, draws=Draws())
    found = scores.pairs(["c", "a"])
    assert list(found) == [("c", "a")]
    assert found["c", "a"].difference == pytest.approx(-3)


@pytest.mark.slow
def test_sixty_cells_cost_little_more_than_their_resampling() -> None:
    """1,770 pairs of three seeds; 40 resamples, so that what is measured is the pairs."""
    cells = column(60, 3, 1500, np.random.default_rng(3))
    draws = Draws(40)
    for seeds in cells.values():
        draws.mean(list(seeds.values()))
    start = time.process_time()
    found = judge_pairs([cells], draws=draws)
    assert len(found) == 1770
    assert time.process_time() - start < 5
