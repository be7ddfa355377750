from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from sentbed import DataError, RunError
from sentbed_common import cosines
from sentbed_evaluators.cosine_correlation import (
    correlation_score,
    require_nonzero,
    require_varied,
)


def test_cosines_equal_a_naive_loop():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 4099, 3)).astype(np.float32)

    naive = []
    for u, v in zip(a.tolist(), b.tolist(), strict=True):
        product = sum(x * y for x, y in zip(u, v, strict=True))
        naive.append(product / (math.hypot(*u) * math.hypot(*v)))

    np.testing.assert_allclose(cosines(a, b), naive, atol=1e-12)


def test_correlations_with_ties_equal_those_of_ranks():
    gold = [0.0, 1.0, 1.0, 3.0, 5.0]
    similarities = np.array([0.1, 0.5, 0.2, 0.2, 0.9])
    spearman = correlation_score("task", gold, similarities, {})
    pearson = correlation_score("task", gold, similarities, {}, "pearson")
    ranks = np.corrcoef(stats.rankdata(gold), stats.rankdata(similarities))[0, 1]
    assert spearman.value == pytest.approx(100 * ranks)
    assert pearson.value == pytest.approx(100 * np.corrcoef(gold, similarities)[0, 1])


@pytest.mark.parametrize(
    ("cosines", "value", "degenerate"),
    [
        ([1.0, 1.0 - 1e-16, 1.0], math.nan, "all cosines are about 1.0000"),
        ([0.9999998, 0.9999999, 1.0], 100, "differ by rounding only"),
        ([0.9998, 0.9999, 1.0], 100, ""),
    ],
)
def test_only_cosines_that_differ_by_rounding_are_degenerate(
    cosines, value, degenerate
):
    score = correlation_score("task", [1.0, 2.0, 3.0], np.array(cosines), {})
    assert score.value == pytest.approx(value, nan_ok=True)
    assert degenerate in score.degenerate
    assert bool(score.degenerate) is bool(degenerate)


@pytest.mark.parametrize("scores", [[1.0], [2.0, 2.0]])
def test_gold_scores_without_variation_are_an_error(scores):
    with pytest.raises(DataError, match=r"needs two of each.* @ gold\.txt"):
        require_varied(scores, "gold.txt")


def test_a_zero_vector_is_named():
    with pytest.raises(RunError, match="'second' is a zero vector"):
        require_nonzero(np.array([[1, 2], [0, 0]], np.float32), ["first", "second"])
