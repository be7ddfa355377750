"""Scores on clean items, and the paired interval of the difference."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sentbed.protocols import Items
from sentbed_audit.clean.overlap import clean_score
from sentbed_common import item_score


def test_a_mean_on_clean_items_has_the_interval_of_its_items():
    draw = np.random.default_rng(0)
    x = draw.normal(size=200)
    seen = draw.random(200) < 0.2
    score, difference = clean_score(Items("mean", x), seen)

    clean = x[~seen]
    clean_mean = clean.mean()
    mean = x.mean()
    assert score == pytest.approx(100 * clean_mean)
    assert difference.value == pytest.approx(100 * (clean_mean - mean))

    # An item counts 1 / n in one mean, and 1 / m in the other where it is clean.
    influence_on_clean = np.where(seen, 0, (x - clean_mean) / len(clean))
    influence = (x - mean) / 200
    parts = 100 * (influence_on_clean - influence)
    error = np.sqrt((parts**2).sum() * 200 / 199)
    reach = stats.t.ppf(0.975, 199) * error
    low, high = difference.interval()
    assert low == pytest.approx(difference.value - reach)
    assert high == pytest.approx(difference.value + reach)


@pytest.mark.parametrize("statistic", ["spearman", "f1", "mean"])
@pytest.mark.parametrize("clustered", [False, True])
def test_the_variance_of_the_difference_is_that_of_resamples(statistic, clustered):
    draw = np.random.default_rng(1)
    number = 400
    x = draw.normal(size=number)
    y = x + draw.normal(size=number)
    if statistic == "f1":
        x = (x > 0).astype(float)
        y = (y > 0).astype(float)
    if statistic == "mean":
        y = None
    clusters = np.arange(number)
    if clustered:
        clusters = clusters // 2
    items = Items(statistic, x, y, clusters=clusters)
    seen = draw.random(number) < 0.3

    def score(rows):
        if y is None:
            return item_score(Items(statistic, x[rows]))
        return item_score(Items(statistic, x[rows], y[rows]))

    units = clusters.max() + 1
    differences = []
    for _ in range(500):
        drawn_units = draw.integers(0, units, units)
        counts = np.bincount(drawn_units, minlength=units)
        drawn = np.repeat(np.arange(number), counts[clusters])
        clean = drawn[~seen[drawn]]
        differences.append(score(clean) - score(drawn))
    _, difference = clean_score(items, seen)
    assert difference.error == pytest.approx(np.std(differences), rel=0.12)


CORRELATED = Items(
    "spearman",
    np.arange(8.0),
    np.arange(8.0),
    groups=np.array([0, 0, 0, 0, 1, 1, 1, 1]),
)


@pytest.mark.parametrize(
    ("items", "seen"),
    [
        pytest.param(
            Items(
                "mean", np.array([1.0, 0.0, 1.0, 1.0]), groups=np.array([0, 0, 1, 1])
            ),
            [True, True, False, False],
            id="no clean item of a group",
        ),
        pytest.param(
            CORRELATED,
            [True, False, False, False, True, True, True, False],
            id="a single clean item of a group, which has no correlation",
        ),
    ],
)
def test_groups_with_too_few_clean_items_are_left_out(items, seen):
    score, _ = clean_score(items, np.array(seen))
    assert score == pytest.approx(100.0)


def test_fewer_than_two_clean_items_have_no_score():
    items = Items("mean", np.ones(3))
    assert clean_score(items, np.array([True, True, False])) is None


@pytest.mark.parametrize("statistic", ["pearson", "spearman"])
def test_a_correlation_that_is_undefined_on_clean_items_has_no_number(statistic):
    predictions = np.array([1.0, 1.0, 1.0, 2.0, 3.0, 4.0])
    items = Items(statistic, np.arange(6.0), predictions)
    seen = np.array([False, False, False, True, True, True])
    assert clean_score(items, seen) is None
    assert clean_score(items, ~seen) is not None
