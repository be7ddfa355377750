from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
from scipy import stats
from sentbed import RunError
from sentbed.protocols import Items
from sentbed_report.statistics import resampling as resampling
from sentbed_report.statistics.influence_values import influences
from sentbed_report.statistics.resampling import (
    require_same,
    require_usable,
    resample,
    value,
)
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


@pytest.mark.parametrize("statistic", [*STATISTICS, hit_rate])
def test_values_equal_those_of_the_library(statistic: Any) -> None:
    for n in (3, 12, 60):
        scored = items(statistic, n)
        columns = [column for column in (scored.x, scored.y) if column is not None]
        assert value(scored) == pytest.approx(reference(statistic, *columns))


# --- resamples ---------------------------------------------------------------------------------------------


def test_every_draw_is_the_value_of_the_items_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[np.ndarray] = []
    draw = resampling._draw

    def listen(*arguments: Any) -> np.ndarray:
        drawn.append(draw(*arguments))
        return drawn[-1]

    monkeypatch.setattr(resampling, "_draw", listen)
    monkeypatch.setattr(resampling, "_BLOCK", 600)
    drawn_from = items(hit_rate, n=12)
    assert drawn_from.y is not None
    result = resample(drawn_from, 120)
    assert len(drawn) > 1
    counts = np.concatenate(drawn, axis=1).astype(int)
    assert counts.shape == (12, 120)
    np.testing.assert_array_equal(counts.sum(axis=0), 12)
    naive = []
    for count in counts.T:
        x, y = np.repeat(drawn_from.x, count), np.repeat(drawn_from.y, count)
        naive.append(reference(hit_rate, x, y))
    np.testing.assert_allclose(result, naive, atol=1e-9)


def test_draws_of_groups_keep_each_groups_size(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = np.array([1, 0, 1, 0, 0])
    rng = np.random.default_rng(0)
    members = members_of(Items("mean", np.zeros(5), groups=groups))
    counts = resampling._draw(rng, members, 200)
    np.testing.assert_array_equal(counts[groups == 0].sum(axis=0), 3)
    np.testing.assert_array_equal(counts[groups == 1].sum(axis=0), 2)
    # Each of three items is drawn once on average: standard error sqrt(2/3 / 200) = 0.06.
    np.testing.assert_allclose(counts.mean(axis=1), 1, atol=0.25)


def test_two_systems_are_resampled_by_the_same_draws() -> None:
    # b is a plus one everywhere: whichever items are drawn, the difference is one.
    a = items("mean", scale=1.0)
    grouped = attrs.evolve(a, groups=np.arange(60) % 7, weighted=True)
    for first in (a, grouped):
        second = attrs.evolve(first, x=first.x + 1)
        differences = resample(second, 200) - resample(first, 200)
        np.testing.assert_allclose(differences, 1)
    assert (resample(a, 200) != resample(a, 200, seed=1)).any()


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
        require_same(found, attrs.evolve(found, **changed))


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
    with pytest.raises(RunError, match=message):
        require_usable(bad)


@pytest.mark.parametrize("statistic", ["pearson", "spearman"])
def test_items_of_a_constant_side_have_no_influence(statistic: str) -> None:
    # The mean of 11 times 0.7 is rounded.
    x, y = np.full(11, 0.7), np.random.default_rng(0).normal(size=11)
    assert influences(Items(statistic, x, y)).tolist() == [0.0] * 11
