from __future__ import annotations

import math

import pytest
from scipy import stats
from sentbed_report.statistics.estimated_difference import EstimatedDifference, Source


def test_one_source_is_students_t():
    difference = EstimatedDifference(1.2, (Source(0.25, 4),))
    t = stats.t(4)
    assert difference.error == 0.5
    assert difference.interval(0.9) == pytest.approx(
        (1.2 - 0.5 * t.ppf(0.95), 1.2 + 0.5 * t.ppf(0.95))
    )
    assert difference.p_value() == pytest.approx(2 * t.sf(2.4))


def test_a_known_variance_is_the_normal_distribution():
    known = EstimatedDifference(3.0, (Source(4.0, math.inf),))
    assert known.p_value() == pytest.approx(2 * stats.norm.sf(1.5))


def test_two_sources_weight_their_critical_values():
    both = EstimatedDifference(0.0, (Source(1.0, 2), Source(3.0, 50)))
    few, many = stats.t(2).isf(0.01), stats.t(50).isf(0.01)
    expected = math.sqrt((few**2 + 3 * many**2) / 4)
    assert both.critical(0.01) == pytest.approx(expected)
    # The p-value is the level at which the estimate is critical.
    beyond = EstimatedDifference(2 * expected, both.sources)
    assert beyond.p_value() == pytest.approx(0.02)


def test_without_variance_there_is_no_doubt():
    assert EstimatedDifference(1.0, ()).interval(0.95) == (1.0, 1.0)
