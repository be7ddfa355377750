"""Whether a cell is as good as the baseline, up to a margin: equivalence and non-inferiority.

A difference that is not significant does not show that two cells are equal. These tests turn the question
round: the hypothesis to reject is that the difference is at least the margin.

- No worse: one one-sided test, against a cell that is worse than the baseline by the margin or more.
- Equivalent: two one-sided tests (TOST; Schuirmann, 1987), of a difference of the margin or more to either
  side. Their p-value is the larger of the two: both must reject. It is below 0.05 exactly if the 90 %
  interval lies within the margin.

The estimate, its variance and its critical values are those of `significance.py`. Each of the two questions
is corrected over the cells by Holm's method.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from sentbed.statistics import EstimatedDifference

from sentbed_report.statistics.significance import Key, holm

CONFIDENCE = 0.9
"""Confidence of the interval that belongs to tests at a level of 5 %."""


@attrs.frozen
class Equivalence:
    """A cell against the baseline, with a margin in the unit of the score."""

    margin: float
    low: float
    """Bounds of the 90 % interval of the difference from the baseline."""
    high: float
    no_worse: float
    """One-sided p-value against being worse than the baseline by the margin or more."""
    equivalent: float
    """P-value of TOST."""
    corrected_no_worse: float
    """The p-values after Holm's correction for the cells; before, they are the same."""
    corrected_equivalent: float


def equivalence_of(
    estimate: EstimatedDifference, margin: float, lower: bool = False
) -> Equivalence:
    """Return the tests of one difference, a cell's score less the baseline's; `lower`: lower is better.

    `margin` is above 0.
    """
    above = estimate.p_above(-margin)
    below = estimate.p_below(margin)
    no_worse = below if lower else above
    equivalent = max(above, below)
    low, high = estimate.interval(CONFIDENCE)
    return Equivalence(margin, low, high, no_worse, equivalent, no_worse, equivalent)


def equivalences_of(
    estimates: Mapping[Key, EstimatedDifference],
    margin: float,
    lower: bool,
    looks: int = 1,
) -> dict[Key, Equivalence]:
    """Return the tests of several differences from one baseline, corrected; see `holm` for `looks`."""
    tests = {
        key: equivalence_of(estimate, margin, lower)
        for key, estimate in estimates.items()
    }
    no_worse = holm({key: test.no_worse for key, test in tests.items()}, looks)
    equivalent = holm({key: test.equivalent for key, test in tests.items()}, looks)
    for key, test in tests.items():
        tests[key] = attrs.evolve(
            test, corrected_no_worse=no_worse[key], corrected_equivalent=equivalent[key]
        )
    return tests
