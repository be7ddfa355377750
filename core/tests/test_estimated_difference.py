from __future__ import annotations

import math

import pytest
from scipy import stats
from sentbed.statistics import EstimatedDifference, Source


def test_one_source_is_students_t():
    difference = EstimatedDifference(1.2, (Source(0.25, 4),))
    t = stats.t(4)
    assert difference.error == 0.5
    assert difference.interval(0.9) == pytest.approx(
        (1.2 - 0.5 * t.ppf(0.95), 1.2 + 0.5 * t.ppf(0.95))
    )
    assert difference.p_value() == pytest.approx(2 * t.sf(2.4))
    assert difference.p_above(0.4) == pytest.approx(t.sf(1.6))
    assert difference.p_below(0.4) == pytest.approx(t.cdf(1.6))
    assert difference.p_above(2.0) == pytest.approx(t.sf(-1.6))
    assert difference.p_above(1.2) == pytest.approx(0.5)


def test_a_known_variance_is_the_normal_distribution():
    assert EstimatedDifference(3.0, (Source(4.0, math.inf),)).p_above(
        0.0
    ) == pytest.approx(stats.norm.sf(1.5))


def test_two_sources_weight_their_critical_values():
    both = EstimatedDifference(0.0, (Source(1.0, 2), Source(3.0, 50)))
    expected = math.sqrt(
        (stats.t(2).isf(0.01) ** 2 + 3 * stats.t(50).isf(0.01) ** 2) / 4
    )
    assert both.critical(0.01) == pytest.approx(expected)
    # The p-value is the level at which the estimate is critical.
    beyond = EstimatedDifference(2 * expected, both.sources)
    assert beyond.p_above(0.0) == pytest.approx(0.01)


def test_without_variance_there_is_no_doubt():
    sure = EstimatedDifference(1.0, ())
    assert sure.interval(0.95) == (1.0, 1.0)
    assert sure.p_above(0.5) < 1e-299
    assert sure.p_below(0.5) == 1.0
    assert sure.p_above(1.0) == 0.5
