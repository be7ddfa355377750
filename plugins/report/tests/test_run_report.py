"""Bootstrap of a run's scores: intervals, and comparisons of its encoders."""

from __future__ import annotations

import math

import attrs
import numpy as np
import pytest
from sentbed.protocols import Items, Score
from sentbed_report.run_report import bootstrapped
from sentbed_report.statistics.resampling import resample
from toy_run_report import score


def items(seed: int, n: int = 200) -> Items:
    return Items("mean", (np.random.default_rng(seed).random(n) < 0.5).astype(float))


def with_items(measured: Score, seed: int, n: int = 200) -> Score:
    return attrs.evolve(measured, items=items(seed, n))


def test_start_is_compared_with_end_and_ends_with_each_other() -> None:
    names = ("en@start", "zh@start", "en", "zh")
    scores = [
        with_items(score("MR", 1.0, name), seed) for seed, name in enumerate(names)
    ]
    bootstrap = bootstrapped([*scores, score("CR", 1.0)], 200, 0.9, 5)
    assert [
        (difference.first, difference.second) for difference in bootstrap.differences
    ] == [
        ("en@start", "en"),
        ("en", "zh"),
        ("zh@start", "zh"),
    ]
    start, end = (resample(items(seed), 200, 5) for seed in (0, 2))
    assert bootstrap.differences[0].comparison == start.compare(end, 0.9)
    assert [interval is None for interval in bootstrap.intervals] == [
        False,
        False,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(
    "other",
    [
        with_items(score("CR", 1.0), 1),
        with_items(score("MR", 1.0, metric="f1"), 1),
        with_items(score("MR", 1.0, evaluator="other"), 1),
        with_items(score("MR", 1.0, data="another"), 1),
        with_items(score("MR", 1.0), 1, n=10),
        score("MR", 1.0),
        attrs.evolve(with_items(score("MR", 1.0), 1), degenerate="all the same"),
    ],
)
def test_unlike_scores_are_not_compared(other: Score) -> None:
    before = with_items(score("MR", 1.0, "en@start"), 2)
    after = attrs.evolve(other, encoder="en")
    assert bootstrapped([before, after], 100, 0.95, 0).differences == ()


def test_items_that_cannot_be_used_leave_a_score_without_interval() -> None:
    unusable = attrs.evolve(score("MR", 1.0), items=Items("mean", np.array([math.nan])))
    assert bootstrapped([unusable], 100, 0.95, 0).intervals == (None,)
