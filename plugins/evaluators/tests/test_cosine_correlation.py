from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from sentbed import DataError, RunError
from sentbed_common import cosines
from sentbed_evaluators.cosine_correlation import (
    correlate,
    require_nonzero,
    require_varied,
    zero_vectors,
)


def test_cosines_equal_a_naive_loop():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 4099, 3)).astype(np.float32)

    naive = []
    for u, v in zip(a.tolist(), b.tolist(), strict=True):
        product = sum(x * y for x, y in zip(u, v, strict=True))
        naive.append(product / (math.hypot(*u) * math.hypot(*v)))

    np.testing.assert_allclose(cosines(a, b), naive, atol=1e-12)


def test_cosine_with_a_zero_vector_is_zero():
    a = np.array([[0, 0], [3, 4]], dtype=np.float32)
    b = np.array([[1, 0], [6, 8]], dtype=np.float32)
    assert cosines(a, b).tolist() == [0.0, 1.0]
    assert zero_vectors(a) == 1


def test_correlations_with_ties_equal_those_of_ranks():
    gold = [0.0, 1.0, 1.0, 3.0, 5.0]
    similarities = np.array([0.1, 0.5, 0.2, 0.2, 0.9])
    result = correlate(gold, similarities)
    ranks = np.corrcoef(stats.rankdata(gold), stats.rankdata(similarities))[0, 1]
    assert result.spearman == pytest.approx(100 * ranks)
    assert result.pearson == pytest.approx(100 * np.corrcoef(gold, similarities)[0, 1])


def test_correlations_with_equal_cosines_are_undefined():
    result = correlate([1.0, 2.0, 3.0], np.array([1.0, 1.0 - 1e-16, 1.0]))
    assert np.isnan([result.spearman, result.pearson]).all()
    assert result.degenerate.startswith(
        "the vectors have collapsed: all cosines are about 1.0000"
    )


def test_cosines_of_a_tiny_span_are_ranked_as_others_are():
    result = correlate([1.0, 2.0, 3.0], np.array([0.9998, 0.9999, 1.0]))
    assert result.spearman == pytest.approx(100)
    assert result.degenerate == ""
    rounding = correlate([1.0, 2.0, 3.0], np.array([0.9999998, 0.9999999, 1.0]))
    assert rounding.degenerate.endswith("and differ by rounding only")


@pytest.mark.parametrize("scores", [[1.0], [2.0, 2.0]])
def test_gold_scores_without_variation_are_an_error(scores):
    with pytest.raises(DataError, match=r"needs two of each.* @ gold\.txt"):
        require_varied(scores, "gold.txt")


def test_a_zero_vector_is_named():
    with pytest.raises(RunError, match="'second' is a zero vector"):
        require_nonzero(np.array([[1, 2], [0, 0]], np.float32), ["first", "second"])
