"""Intervals of a run's scores over their items, and of their changes by training."""

from __future__ import annotations

import math

import attrs
import numpy as np
import pytest
from scipy import stats
from sentbed.protocols import Items
from sentbed_common import item_score
from sentbed_report.score_intervals import score_intervals
from toy_run_report import score, whitened


def items(seed, n=200):
    return Items("mean", (np.random.default_rng(seed).random(n) < 0.5).astype(float))


def with_items(measured, seed, n=200):
    of_score = items(seed, n)
    return attrs.evolve(measured, items=of_score, value=item_score(of_score))


def test_a_score_has_students_interval_over_its_items_and_its_change_a_paired_t_test():
    names = ("en@start", "zh@start", "en", "zh")
    scores = [
        with_items(score("MR", 1.0, name), seed) for seed, name in enumerate(names)
    ]
    intervals = score_intervals([*scores, score("CR", 1.0)])
    assert [each.score for each in intervals] == scores
    assert [each.change is None for each in intervals] == [True, True, False, False]
    before, after = 100 * items(0).x, 100 * items(2).x
    half = stats.t.ppf(0.975, 199) * after.std(ddof=1) / math.sqrt(200)
    assert intervals[2].interval == pytest.approx(
        (after.mean() - half, after.mean() + half)
    )
    expected = stats.ttest_rel(after, before)
    change = intervals[2].change
    assert change.difference == pytest.approx(after.mean() - before.mean())
    assert change.interval == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert change.p_value == pytest.approx(expected.pvalue)


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
def test_unlike_scores_are_not_compared(other):
    before = with_items(score("MR", 1.0, "en@start"), 2)
    after = attrs.evolve(other, encoder="en")
    assert all(each.change is None for each in score_intervals([before, after]))


def test_a_change_is_from_the_score_before_training_that_was_made_in_the_same_way():
    before = with_items(score("MR", 1.0, "en@start"), 1)
    after = with_items(score("MR", 1.0, "en"), 2)
    white_before = whitened(with_items(before, 3))
    white_after = whitened(with_items(after, 4))
    scores = [before, white_before, after, white_after]
    *_, plain, white = score_intervals(scores)
    assert plain.change.difference == pytest.approx(after.value - before.value)
    assert white.change.difference == pytest.approx(
        white_after.value - white_before.value
    )
    # Without one of them it is unknown which evaluation the other belongs to.
    (_, plain, white) = score_intervals([white_before, after, white_after])
    assert plain.change is white.change is None
