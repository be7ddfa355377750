from __future__ import annotations

import time
from itertools import combinations

import numpy as np
import pytest
from sentbed.protocols import Items, Score
from sentbed_report.statistics.item_components import ComponentStore
from sentbed_report.statistics.resampling import value
from sentbed_report.statistics.significance import (
    TableScores,
    average_column,
    corrected,
    judge_column,
    judge_pairs,
)

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
    found = judge_pairs(cells)
    expected = {
        (first, second): judge_column(cells[first], {second: cells[second]})[second]
        for first, second in combinations(cells, 2)
    }
    assert found == corrected(expected)
    assert len({one.corrected for one in found.values()} - {one.p_value for one in found.values()}) > 1


def test_pairs_of_an_average_are_those_of_judge_column() -> None:
    rng = np.random.default_rng(1)
    tasks = [column(3, 2, 60, rng) for _ in range(3)]
    average = average_column(tasks, {})
    found = judge_pairs(average)
    for first, second in combinations(average, 2):
        expected = judge_column(average[first], {second: average[second]})[second]
        assert found[first, second].p_value == expected.p_value
        assert found[first, second].item_variance is not None
    assert found == corrected(found)


def test_only_seeds_of_both_are_paired() -> None:
    cells = {"a": {1: scored(None, 1.0), 2: scored(None, 2.0), 3: scored(None, 9.0)}}
    cells["b"] = {2: scored(None, 3.0), 1: scored(None, 2.5)}
    found = judge_pairs(cells)["a", "b"]
    assert dict(found.differences) == {1: 1.5, 2: 1.0}
    assert found.unpaired == (3,)


def test_a_pair_of_other_items_says_why() -> None:
    cells = {name: {1: scored(Items("mean", np.arange(size)))} for name, size in (("a", 5), ("b", 6))}
    found = judge_pairs(cells)["a", "b"]
    assert "cannot be paired" in found.reason
    assert found.p_value is None


def test_rows_are_compared_in_the_order_that_is_asked_for() -> None:
    cells = {name: {seed: scored(None, ord(name) * seed) for seed in (1, 2)} for name in "abc"}
    scores = TableScores(cells, ComponentStore(500))
    found = scores.pairs(["c", "a"])
    assert list(found) == [("c", "a")]
    assert found["c", "a"].difference == pytest.approx(-3)


@pytest.mark.slow
def test_pairs_of_sixty_cells_are_judged_in_seconds() -> None:
    """1,770 pairs of three seeds."""
    cells = column(60, 3, 1500, np.random.default_rng(3))
    start = time.process_time()
    found = judge_pairs(cells)
    assert len(found) == 1770
    assert time.process_time() - start < 5
