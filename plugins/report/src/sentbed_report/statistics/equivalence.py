"""Tests of equivalence and non-inferiority: whether a cell is as good as the baseline, up to a margin.

A difference that is not significant does not show that two cells are equal. In these tests, the null hypothesis
is that they differ by at least the margin.

- Non-inferiority ("no worse"): a one-sided test; the null hypothesis is that the cell is worse than the
  baseline by the margin or more.
- Equivalence: two one-sided tests (TOST; Schuirmann, 1987), one for each sign of the difference. Both must
  reject, so the p-value is the larger of the two. It is below 0.05 exactly if the 90 % interval lies within the
  margin.

The estimate, its variance and its critical values are those of `significance.py`. For each of the two tests,
the p-values of all cells are corrected by Holm's method.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from sentbed.statistics import EstimatedDifference

from sentbed_report.statistics.significance import Key, holm

CONFIDENCE = 0.9
"""Confidence level of the interval that corresponds to TOST at a level of 5 %."""


@attrs.frozen
class Equivalence:
    """Tests of a cell against the baseline; `margin`, `low` and `high` are in the unit of the score."""

    margin: float
    low: float
    """Lower bound of the 90 % interval of the cell's score minus the baseline's."""
    high: float
    """Upper bound of this interval."""
    no_worse: float
    """p-value of the test of non-inferiority."""
    equivalent: float
    """p-value of the test of equivalence (TOST)."""
    corrected_no_worse: float
    """`no_worse` after Holm's correction over the cells; the same as `no_worse` before the correction."""
    corrected_equivalent: float
    """`equivalent` after Holm's correction over the cells; the same as `equivalent` before the correction."""


def equivalence_of(
    estimate: EstimatedDifference,
    margin: float,
    lower: bool = False,
) -> Equivalence:
    """Return both tests of one cell, before the correction; `estimate` is its score minus the baseline's.

    `margin` is above 0. `lower` says whether lower scores are better.
    """
    above = estimate.p_above(-margin)
    below = estimate.p_below(margin)
    no_worse = above
    if lower:
        no_worse = below
    equivalent = max(above, below)
    low, high = estimate.interval(CONFIDENCE)
    return Equivalence(margin, low, high, no_worse, equivalent, no_worse, equivalent)


def equivalences_of(
    estimates: Mapping[Key, EstimatedDifference],
    margin: float,
    lower: bool,
) -> dict[Key, Equivalence]:
    """Return both tests of several cells against one baseline, with Holm's correction."""
    tests = {}
    no_worse = {}
    equivalent = {}
    for key, estimate in estimates.items():
        test = equivalence_of(estimate, margin, lower)
        tests[key] = test
        no_worse[key] = test.no_worse
        equivalent[key] = test.equivalent

    corrected_no_worse = holm(no_worse)
    corrected_equivalent = holm(equivalent)
    for key, test in tests.items():
        tests[key] = attrs.evolve(
            test,
            corrected_no_worse=corrected_no_worse[key],
            corrected_equivalent=corrected_equivalent[key],
        )
    return tests
