from __future__ import annotations

from typing import get_args

import attrs
import numpy as np
import pytest
from scipy import stats
from sentbed.protocols import Items, Statistic
from sentbed_common import item_influences, item_score, score_range
from sklearn import metrics

STATISTICS = get_args(Statistic)


def made_up_items(statistic, n=60):
    """Items with ties in x and y, or classes."""
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 6, n).astype(float)
    noisy = (gold + rng.normal(size=n)).round(1)
    other_class = rng.integers(0, 6, n)
    predicted = np.where(rng.random(n) < 0.2, other_class, gold)

    if statistic == "mean":
        return Items("mean", noisy)

    if statistic == "average-precision":
        return Items(statistic, gold > 3, noisy)

    if statistic == "f1":
        return Items(statistic, gold > 2, predicted > 2)

    if statistic == "matthews":
        return Items(statistic, gold, predicted)

    return Items(statistic, gold, noisy)


def spearman(x, y):
    return stats.spearmanr(x, y).statistic


def pearson(x, y):
    return stats.pearsonr(x, y).statistic


LIBRARY = {
    "mean": np.mean,
    "spearman": spearman,
    "pearson": pearson,
    "matthews": metrics.matthews_corrcoef,
    "f1": metrics.f1_score,
    "average-precision": metrics.average_precision_score,
}


def columns_of(items):
    if items.y is None:
        return [items.x]
    return [items.x, items.y]


@pytest.mark.parametrize(
    ("statistic", "x", "y"),
    [
        # The mean of 11 times 0.7 is rounded.
        ("spearman", 0.7, 0.5),
        ("pearson", 0.7, 0.5),
        ("matthews", 1, 0),
        ("f1", 0, 0),
        ("average-precision", 0, 1),
    ],
)
def test_a_constant_has_the_score_zero_and_no_influences(statistic, x, y):
    items = Items(statistic, np.full(11, x), np.full(11, y))
    assert item_score(items) == 0
    assert not item_influences(items).any()


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("n", [3, 12, 60])
def test_scores_equal_those_of_the_library(statistic, n):
    items = made_up_items(statistic, n)
    expected = LIBRARY[statistic](*columns_of(items))
    assert item_score(items) == pytest.approx(100 * expected)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_influences_are_what_repeating_an_item_changes(statistic):
    items = made_up_items(statistic)
    influences = item_influences(items)
    assert influences.sum() == pytest.approx(0, abs=1e-9)

    # All items occur 500 times, and one of them once more or once less.
    counts = np.full(len(items.x), 500)
    for item in (0, 7, 31):
        scores = []
        for change in (1, -1):
            counts[item] += change
            columns = []
            for column in columns_of(items):
                repeated = np.repeat(column, counts)
                columns.append(repeated)

            changed = Items(statistic, *columns)
            scores.append(item_score(changed))
            counts[item] -= change
        derivative = 500 * (scores[0] - scores[1]) / 2
        assert derivative == pytest.approx(influences[item], rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
def test_groups_are_scored_apart_and_averaged(weighted):
    groups = np.repeat([2, 1, 0], [30, 20, 10])
    items = attrs.evolve(made_up_items("spearman"), groups=groups, weighted=weighted)
    parts = []
    for group in range(3):
        is_member = groups == group
        part = Items("spearman", items.x[is_member], items.y[is_member])
        parts.append(item_score(part))
    weights = [10, 20, 30] if weighted else None
    assert item_score(items) == pytest.approx(np.average(parts, weights=weights))


def test_a_range_is_that_of_the_statistic_times_the_scale():
    right = np.array([1.0, 0, 1])
    shares = Items("mean", right)
    assert score_range(shares) == (0, 100)

    numbers = Items("mean", 2 * right)
    assert score_range(numbers) == (-np.inf, np.inf)

    correlation = Items("pearson", right, right, scale=1.0)
    assert score_range(correlation) == (-1, 1)

    loss = Items("f1", right, right, scale=-1.0)
    assert score_range(loss) == (-1, 0)
