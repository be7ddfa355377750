from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
from scipy import stats
from sentbed import RunError
from sentbed.protocols import Items
from sentbed_report.statistics import resampling as resampling
from sentbed_report.statistics.resampling import Comparison, resample, value
from sentbed_report.statistics.weighted_statistics import members_of

STATISTICS = [
    "mean",
    "spearman",
    "pearson",
    "matthews",
    "f1",
    "average-precision",
    "v-measure",
]


def hit_rate(x: np.ndarray, y: np.ndarray) -> float:
    """A statistic of a plugin: the share of items that are predicted to within one half."""
    return float(np.mean(np.abs(x - y) < 0.5))


def items(
    statistic: Any, n: int = 60, seed: int = 0, noise: float = 1.0, **more: Any
) -> Items:
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


def compare(a: Items, b: Items, resamples: int = 1000, seed: int = 0) -> Comparison:
    """Compare two systems on the same resamples of their items."""
    return resample(a, resamples, seed).compare(resample(b, resamples, seed))


def reference(statistic: Any, x: np.ndarray, y: np.ndarray | None = None) -> float:
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
    function: dict[str, Callable[[Any, Any], Any]] = {
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
def test_values_equal_those_computed_by_hand(
    statistic: Any, x: list[float], y: list[float] | None, expected: float
) -> None:
    predicted = None if y is None else np.array(y, float)
    assert value(Items(statistic, np.array(x, float), predicted)) == pytest.approx(
        expected
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_groups_are_scored_apart_and_averaged(weighted: bool) -> None:
    groups = np.array([0] * 10 + [1] * 20 + [2] * 30)[::-1].copy()
    found = items("spearman", groups=groups, weighted=weighted)
    assert found.y is not None
    parts = [
        reference("spearman", found.x[groups == g], found.y[groups == g])
        for g in range(3)
    ]
    assert value(found) == pytest.approx(
        np.average(parts, weights=[10, 20, 30] if weighted else None)
    )


# --- resamples ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("statistic", [*STATISTICS, hit_rate])
def test_every_draw_is_the_librarys_value_of_the_items_drawn(
    statistic: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[np.ndarray] = []
    draw = resampling._draw

    def listen(*arguments: Any) -> np.ndarray:
        drawn.append(draw(*arguments))
        return drawn[-1]

    monkeypatch.setattr(resampling, "_draw", listen)
    monkeypatch.setattr(resampling, "_BLOCK", 600)
    drawn_from = items(statistic, n=12)
    result = resample(drawn_from, resamples=120)
    assert len(drawn) > 1
    counts = np.concatenate(drawn, axis=1).astype(int)
    assert counts.shape == (12, 120)
    np.testing.assert_array_equal(counts.sum(axis=0), 12)
    columns = [column for column in (drawn_from.x, drawn_from.y) if column is not None]
    naive = [
        reference(statistic, *(np.repeat(column, count) for column in columns))
        for count in counts.T
    ]
    np.testing.assert_allclose(result.draws, naive, atol=1e-9)
    assert value(drawn_from) == pytest.approx(reference(statistic, *columns))


@pytest.mark.parametrize("systems", [1, 2])
@pytest.mark.parametrize("statistic", ["pearson", "spearman"])
def test_an_interval_is_about_that_of_scipy(statistic: str, systems: int) -> None:
    a, b = items(statistic, 150, 1), items(statistic, 150, 2)

    def score(x: np.ndarray, first: np.ndarray) -> float:
        return reference(statistic, x, first)

    def difference(x: np.ndarray, first: np.ndarray, second: np.ndarray) -> float:
        return score(x, second) - score(x, first)

    if systems == 1:
        bounds, columns, function = resample(a, 4000).interval(), (a.x, a.y), score
    else:
        comparison = compare(a, b, resamples=4000)
        bounds, columns, function = (
            (comparison.low, comparison.high),
            (a.x, a.y, b.y),
            difference,
        )
    expected = stats.bootstrap(
        columns,
        function,
        paired=True,
        vectorized=False,
        n_resamples=1000,
        method="percentile",
        rng=1,
    ).confidence_interval
    # Quantiles of 1,000 draws have a standard error of about 0.08 standard deviations.
    slack = (expected.high - expected.low) / 4 * 0.35
    np.testing.assert_allclose(bounds, expected, atol=slack)


def test_draws_of_groups_keep_each_groups_size(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = np.array([1, 0, 1, 0, 0])
    rng = np.random.default_rng(0)
    members = members_of(Items("mean", np.zeros(5), groups=groups))
    counts = resampling._draw(rng, members, 200)
    np.testing.assert_array_equal(counts[groups == 0].sum(axis=0), 3)
    np.testing.assert_array_equal(counts[groups == 1].sum(axis=0), 2)
    # Each of three items is drawn once on average: standard error sqrt(2/3 / 200) = 0.06.
    np.testing.assert_allclose(counts.mean(axis=1), 1, atol=0.25)


def test_an_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    trials, n, rho = 300, 80, 0.6
    covered = 0
    truth = (
        600 / np.pi * np.arcsin(rho / 2)
    )  # Spearman's correlation of a bivariate normal
    for trial in range(trials):
        x = rng.normal(size=n)
        y = rho * x + np.sqrt(1 - rho**2) * rng.normal(size=n)
        low, high = resample(Items("spearman", x, y), 300, trial).interval(0.9)
        covered += low <= truth <= high
    # 0.9 less what a percentile interval of 80 items lacks; binomial standard error 0.017.
    assert 0.84 <= covered / trials <= 0.95


def test_confidence_widens_and_the_seed_decides() -> None:
    drawn = [resample(items("spearman"), seed=seed) for seed in (1, 1, 2)]
    narrow, wide = drawn[0].interval(0.5), drawn[0].interval(0.99)
    assert wide[0] < narrow[0] < drawn[0].value < narrow[1] < wide[1]
    assert drawn[0].interval() == drawn[1].interval() != drawn[2].interval()


def test_seven_tasks_of_five_thousand_pairs_take_a_few_seconds() -> None:
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 26, 5000) / 5
    start = time.process_time()
    resample(Items("spearman", gold, gold + rng.normal(size=5000)))
    # 0.12 s on an idle core; a loop over scipy takes more than 1.5 s.
    assert time.process_time() - start < 1


# --- comparisons -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("statistic", [*STATISTICS, hit_rate])
def test_a_system_does_not_differ_from_itself(statistic: str) -> None:
    found = items(statistic)
    same = compare(found, found)
    assert (same.difference, same.low, same.high, same.p_value) == (0, 0, 0, 1)


@pytest.mark.parametrize("statistic", [*STATISTICS[1:], hit_rate])
def test_the_better_system_comes_out_better_whichever_comes_first(
    statistic: str,
) -> None:
    worse, better = (
        items(statistic, 300, 1, noise=2),
        items(statistic, 300, 2, noise=0.5),
    )
    found, back = compare(worse, better), compare(better, worse)
    assert (found.a, found.b) == (value(worse), value(better))
    assert found.difference == found.b - found.a > 0
    assert 0 < found.low < found.difference < found.high
    assert found.p_value < 0.05
    assert (back.difference, back.low, back.high) == pytest.approx(
        (-found.difference, -found.high, -found.low)
    )
    assert back.p_value == pytest.approx(found.p_value, abs=0.01)


def test_paired_draws_are_of_the_same_items() -> None:
    # b is a plus one everywhere: whichever items are drawn, the difference is one.
    a = items("mean", scale=1.0)
    found = compare(a, attrs.evolve(a, x=a.x + 1))
    assert (found.low, found.high) == pytest.approx((1, 1))
    grouped = attrs.evolve(a, groups=np.arange(60) % 7, weighted=True)
    found = compare(grouped, attrs.evolve(grouped, x=a.x + 1))
    assert (found.low, found.high) == pytest.approx((1, 1))


def test_a_p_value_is_never_zero() -> None:
    a, b = Items("mean", np.zeros(50)), Items("mean", np.ones(50))
    assert compare(a, b, 199).p_value == pytest.approx(2 / 200)


def test_p_values_of_equal_systems_are_rarely_small() -> None:
    rng = np.random.default_rng(3)
    small, trials = 0, 200
    for trial in range(trials):
        gold = rng.normal(size=60)
        a, b = (Items("spearman", gold, gold + rng.normal(size=60)) for _ in range(2))
        small += compare(a, b, resamples=200, seed=trial).p_value < 0.05
    # 0.05 with a standard error of 0.015
    assert small / trials < 0.1


# --- what cannot be resampled ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"x": np.arange(59.0), "y": np.arange(59.0)},
            "one was scored on 60 items, the other on 59",
        ),
        ({"x": np.arange(60.0)}, "their gold values differ, or stand in another order"),
        ({"groups": np.zeros(60, int)}, "their items are grouped in different ways"),
        ({"statistic": "pearson"}, "one is a `spearman`, the other a `pearson`"),
        ({"scale": 1.0}, "of another scale or weighting"),
    ],
)
def test_scores_of_other_items_are_not_paired(
    changed: dict[str, Any], message: str
) -> None:
    found = items("spearman")
    with pytest.raises(RunError, match=f"cannot be paired: .*{message}"):
        compare(found, attrs.evolve(found, **changed))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            Items("mean", np.array([])),
            "found 0 of `x`, expected as many of each and at least one",
        ),
        (Items("spearman", np.ones(3), np.ones(2)), "found 3 of `x`, 2 of `y`"),
        (Items("spearman", np.ones(3)), "items of `spearman` lack `y`"),
        (Items("mean", np.ones(3), np.ones(3)), "items of `mean` have `y`"),
        (Items("mean", np.array([1.0, np.nan])), "`x` of the items has NaN"),
        (
            Items("median", np.ones(3)),
            "there is no statistic `median`; choose one of `average-precision`, `f1`",
        ),
        (
            Items(lambda x: 1.0, np.ones(3)),
            "is no function of a module; define it at the top of one",
        ),
    ],
)
def test_items_that_cannot_be_used_are_refused_with_a_sentence(
    bad: Items, message: str
) -> None:
    for use in (value, resample):
        with pytest.raises(RunError, match=message):
            use(bad)
