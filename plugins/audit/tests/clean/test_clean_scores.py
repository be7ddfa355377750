"""Scores on clean items, and the paired interval of the difference."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sentbed.protocols import Items, Score
from sentbed_audit.clean.clean_scores import clean_score, paired_difference
from sentbed_audit.clean.overlap import SeenItems
from sentbed_common import item_score


def score_of(items):
    return Score("T", "metric", 50.0, {"id": "p"}, items=items)


def seen_items(seen):
    return SeenItems(seen, seen, seen)


def test_a_mean_on_clean_items_has_the_interval_of_its_items():
    draw = np.random.default_rng(0)
    x = draw.normal(size=200)
    seen = draw.random(200) < 0.2
    row = clean_score(score_of(Items("mean", x)), seen_items(seen))
    assert row.clean is not None
    assert row.difference is not None
    assert row.interval is not None

    clean = x[~seen]
    clean_mean = clean.mean()
    mean = x.mean()
    assert row.clean.value == pytest.approx(100 * clean_mean)
    expected = 100 * (clean_mean - mean)
    assert row.difference == pytest.approx(expected)

    # An item counts 1 / n in one mean, and 1 / m in the other where it is clean.
    influence_on_clean = np.where(seen, 0, (x - clean_mean) / len(clean))
    influence = (x - mean) / 200
    parts = 100 * (influence_on_clean - influence)
    error = np.sqrt((parts**2).sum() * 200 / 199)
    reach = stats.t.ppf(0.975, 199) * error
    low, high = row.interval
    assert low == pytest.approx(row.difference - reach)
    assert high == pytest.approx(row.difference + reach)


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
    estimate = paired_difference(items, ~seen, 0.0)
    assert estimate.error == pytest.approx(np.std(differences), rel=0.12)


def test_groups_without_a_clean_item_are_left_out():
    x = np.array([1.0, 0.0, 1.0, 1.0])
    groups = np.array([0, 0, 1, 1])
    items = Items("mean", x, groups=groups)
    seen = np.array([True, True, False, False])
    row = clean_score(score_of(items), seen_items(seen))
    assert row.clean is not None
    assert row.clean.value == pytest.approx(100.0)


def test_fewer_than_two_clean_items_have_no_score():
    items = Items("mean", np.ones(3))
    seen = np.array([True, True, False])
    row = clean_score(score_of(items), seen_items(seen))
    assert row.clean is None
    assert row.difference is None
    assert row.interval is None


def test_a_single_clean_item_of_a_group_has_no_correlation():
    x = np.arange(8.0)
    items = Items("spearman", x, x, groups=np.array([0, 0, 0, 0, 1, 1, 1, 1]))
    seen = np.array([True, False, False, False, True, True, True, False])
    row = clean_score(score_of(items), seen_items(seen))
    assert row.clean is not None
    assert row.clean.value == pytest.approx(100.0)
    assert row.clean.items is not None
    clean_x = row.clean.items.x
    assert clean_x.tolist() == [1.0, 2.0, 3.0]
    assert row.difference == pytest.approx(0.0)
