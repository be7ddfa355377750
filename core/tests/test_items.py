from __future__ import annotations

import attrs
import numpy as np
import pytest
from scipy import stats
from sentbed import RunError
from sentbed.protocols import Items
from sentbed.statistics import STATISTICS, average_precision


def hit_rate(x, y):
    """A statistic of a plugin: the share of items that are predicted to within one half."""
    return float(np.mean(np.abs(x - y) < 0.5))


def items(statistic, n=60, seed=0, noise=1.0, **more):
    """Items with ties in x and y, or classes; the gold is the same for every noise."""
    gold = np.random.default_rng(1000).integers(0, 6, n).astype(float)
    rng = np.random.default_rng(seed)
    if statistic == "mean":
        return Items("mean", rng.random(n).round(1), **more)
    if statistic == "average-precision":
        gold = (gold > 3).astype(float)
        return Items(
            statistic, gold, (gold + noise * rng.normal(size=n)).round(1), **more
        )
    if statistic == "v-measure":
        gold = np.floor(gold / 2)
        return Items(
            statistic,
            gold,
            np.where(rng.random(n) < 0.2 * noise, rng.integers(0, 5, n), gold),
            **more,
        )
    if statistic in ("matthews", "f1"):
        gold = (gold > 2).astype(float)
        return Items(
            statistic,
            gold,
            np.where(rng.random(n) < 0.2 * noise, 1 - gold, gold),
            **more,
        )
    return Items(statistic, gold, (gold + noise * rng.normal(size=n)).round(1), **more)


def reference(statistic, x, y=None):
    """x 100, as the libraries have it; 0 where they have nothing."""
    from sklearn import metrics

    if statistic == "mean":
        return 100 * float(np.mean(x))
    if statistic in ("spearman", "pearson") and (np.ptp(x) == 0 or np.ptp(y) == 0):
        return 0.0
    if statistic == "average-precision" and not np.any(x):
        return 0.0
    if callable(statistic):
        return 100 * statistic(x, y)
    function = {
        "spearman": lambda x, y: stats.spearmanr(x, y).statistic,
        "pearson": lambda x, y: stats.pearsonr(x, y).statistic,
        "matthews": metrics.matthews_corrcoef,
        "f1": lambda x, y: metrics.f1_score(x, y, zero_division=0),
        "average-precision": metrics.average_precision_score,
        "v-measure": lambda x, y: metrics.v_measure_score(x.astype(int), y.astype(int)),
    }
    return 100 * float(function[statistic](x, y))


# --- values ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statistic", "x", "y", "expected"),
    [
        ("mean", [1, 0, 1, 1], None, 75),
        # Ranks 4 2 3 1 against 4 3 2 1: 1 - 6 * (1 + 1) / (4 * 15) = 0.8.
        ("spearman", [5, 2, 3, 1], [0.9, 0.5, 0.4, -0.3], 80),
        ("pearson", [1, 2, 3], [2, 4, 6], 100),
        # 3 found of 4 ones, 1 found that is none: 2 * 3 / (4 + 4).
        ("f1", [1, 1, 1, 1, 0, 0], [1, 1, 1, 0, 1, 0], 75),
        # (3 * 1 - 1 * 1) / sqrt(4 * 4 * 2 * 2)
        ("matthews", [1, 1, 1, 1, 0, 0], [1, 1, 1, 0, 1, 0], 25),
        # Found first, third and fourth of four.
        (
            "average-precision",
            [1, 0, 1, 1],
            [0.9, 0.8, 0.7, 0.6],
            100 * (1 + 2 / 3 + 3 / 4) / 3,
        ),
        # Each of two classes split in two pure clusters: homogeneity 1, completeness log 2 / log 4.
        ("v-measure", [0, 0, 1, 1], [0, 1, 2, 3], 100 * 2 * 0.5 / 1.5),
        # Not defined.
        ("spearman", [0, 1, 1], [0.1, 0.1, 0.1], 0),
        ("pearson", [0.1, 0.1, 0.1], [0, 1, 1], 0),
        ("matthews", [0, 1, 1], [1, 1, 1], 0),
        ("f1", [0, 0, 0], [0, 0, 0], 0),
        ("v-measure", [0, 0, 1, 1], [0, 0, 0, 0], 0),
    ],
)
def test_values_equal_those_computed_by_hand(statistic, x, y, expected):
    predicted = None if y is None else np.array(y, float)
    assert Items(statistic, np.array(x, float), predicted).value() == pytest.approx(
        expected
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_groups_are_scored_apart_and_averaged(weighted):
    groups = np.array([0] * 10 + [1] * 20 + [2] * 30)[::-1].copy()
    grouped = items("spearman", groups=groups, weighted=weighted)
    parts = [
        reference("spearman", grouped.x[groups == g], grouped.y[groups == g])
        for g in range(3)
    ]
    assert grouped.value() == pytest.approx(
        np.average(parts, weights=[10, 20, 30] if weighted else None)
    )


@pytest.mark.parametrize("statistic", [*STATISTICS, hit_rate])
def test_values_equal_those_of_the_library(statistic):
    for n in (3, 12, 60):
        scored = items(statistic, n)
        columns = [column for column in (scored.x, scored.y) if column is not None]
        assert scored.value() == pytest.approx(reference(statistic, *columns))


# --- resamples ---------------------------------------------------------------------------------------------


def test_every_draw_is_the_value_of_the_items_drawn(monkeypatch):
    drawn = []
    draw = Items._draw_counts

    def listen(*arguments):
        drawn.append(draw(*arguments))
        return drawn[-1]

    monkeypatch.setattr(Items, "_draw_counts", listen)
    monkeypatch.setattr("sentbed.protocols.items._COUNTS_AT_ONCE", 600)
    drawn_from = items(hit_rate, n=12)
    result = drawn_from.resample(120)
    assert len(drawn) > 1
    counts = np.concatenate(drawn, axis=1).astype(int)
    assert counts.shape == (12, 120)
    np.testing.assert_array_equal(counts.sum(axis=0), 12)
    naive = []
    for count in counts.T:
        x, y = np.repeat(drawn_from.x, count), np.repeat(drawn_from.y, count)
        naive.append(reference(hit_rate, x, y))
    np.testing.assert_allclose(result, naive, atol=1e-9)


def test_draws_of_groups_keep_each_groups_size(monkeypatch):
    groups = np.array([1, 0, 1, 0, 0])
    rng = np.random.default_rng(0)
    grouped = Items("mean", np.zeros(5), groups=groups)
    counts = grouped._draw_counts(rng, grouped.by_group(), 200)
    np.testing.assert_array_equal(counts[groups == 0].sum(axis=0), 3)
    np.testing.assert_array_equal(counts[groups == 1].sum(axis=0), 2)
    # Each of three items is drawn once on average: standard error sqrt(2/3 / 200) = 0.06.
    np.testing.assert_allclose(counts.mean(axis=1), 1, atol=0.25)


def test_two_systems_are_resampled_by_the_same_draws():
    # b is a plus one everywhere: whichever items are drawn, the difference is one.
    a = items("mean", scale=1.0)
    grouped = attrs.evolve(a, groups=np.arange(60) % 7, weighted=True)
    for first in (a, grouped):
        second = attrs.evolve(first, x=first.x + 1)
        differences = second.resample(200) - first.resample(200)
        np.testing.assert_allclose(differences, 1)
    assert (a.resample(200) != a.resample(200, seed=1)).any()


# --- what cannot be scored ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("mean", np.array([])),
            "found 0 of `x`, expected as many of each and at least one",
        ),
        (("spearman", np.ones(3), np.ones(2)), "found 3 of `x`, 2 of `y`"),
        (("spearman", np.ones(3)), "items of `spearman` lack `y`"),
        (("mean", np.ones(3), np.ones(3)), "items of `mean` have `y`"),
        (("mean", np.array([1.0, np.nan])), "`x` of the items has NaN"),
        (("mean", [1.0, 2.0]), r"`x` of the items is \[1.0, 2.0\], expected an array"),
        (("mean", np.array(["a"])), r"expected an array with a number per item"),
        (
            ("median", np.ones(3)),
            "there is no statistic `median`; choose one of `average-precision`, `f1`",
        ),
        (
            (lambda x: 1.0, np.ones(3)),
            "is no function of a module; define it at the top of one",
        ),
    ],
)
def test_items_that_cannot_be_used_are_refused_when_they_are_made(arguments, message):
    with pytest.raises(ValueError, match=message):
        Items(*arguments)


@pytest.mark.parametrize("statistic", ["pearson", "spearman"])
def test_items_of_a_constant_side_have_no_influence(statistic):
    # The mean of 11 times 0.7 is rounded.
    x, y = np.full(11, 0.7), np.random.default_rng(0).normal(size=11)
    assert Items(statistic, x, y).influences().tolist() == [0.0] * 11


# --- intervals ---------------------------------------------------------------------------------------------


def test_the_interval_of_a_mean_is_students():
    of_mean = items("mean")
    expected = stats.ttest_1samp(100 * of_mean.x, 0).confidence_interval(0.9)
    assert of_mean.interval(0.9) == pytest.approx(tuple(expected))


@pytest.mark.parametrize("statistic", [*STATISTICS, hit_rate])
def test_the_interval_holds_the_score_and_is_within_the_range_of_the_metric(statistic):
    noisy = items(statistic, noise=0.5)
    interval, wider = noisy.interval(), noisy.interval(0.99)
    least, most = noisy.range()
    assert least <= wider[0] <= interval[0] < noisy.value() < interval[1] <= wider[1]
    assert wider[1] <= most


def test_draws_and_seed_decide_the_interval_of_a_plugins_statistic_alone():
    of_plugin, of_name = items(hit_rate), items("spearman")
    assert of_plugin.interval(seed=0) == of_plugin.interval(seed=0)
    assert of_plugin.interval(seed=0) != of_plugin.interval(seed=1)
    assert of_name.interval(seed=0) == of_name.interval(seed=1)
    by_draws = of_plugin.interval(draws=4000)
    # The share of hits is a mean: the same interval but for the noise of 4,000 draws.
    hits = Items("mean", np.abs(of_plugin.x - of_plugin.y) < 0.5).interval()
    assert by_draws == pytest.approx(hits, abs=1.0)


def test_items_that_say_nothing_of_the_spread_have_no_interval():
    assert Items("mean", np.ones(9)).interval() is None
    assert Items("mean", np.arange(3.0), groups=np.arange(3)).interval() is None


def test_a_function_of_the_statistics_is_its_name():
    named = items("average-precision")
    by_function = attrs.evolve(named, statistic=average_precision)
    assert by_function.statistic == "average-precision"
    assert named.value() == 100 * average_precision(named.x, named.y)
    assert by_function.interval() == named.interval()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"level": 95}, "the level 95 of an interval, expected one between 0 and 1"),
        ({"draws": 1}, "found 1 draws of the items, expected two or more"),
    ],
)
def test_levels_and_draws_that_are_none_are_refused(arguments, message):
    with pytest.raises(RunError, match=message):
        items(hit_rate).interval(**arguments)
