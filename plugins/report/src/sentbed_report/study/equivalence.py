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
from typing import TYPE_CHECKING

import attrs

from sentbed_report.study.estimated_difference import EstimatedDifference
from sentbed_report.study.significance import holm

if TYPE_CHECKING:
    from sentbed_report.study.summary_tables import Summary

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


def equivalence_of(estimate: EstimatedDifference, margin: float, lower: bool = False) -> Equivalence:
    """Return the tests of one difference, a cell's score less the baseline's; `lower`: lower is better.

    `margin` is above 0.
    """
    above, below = estimate.p_above(-margin), estimate.p_below(margin)
    no_worse, equivalent = below if lower else above, max(above, below)
    low, high = estimate.interval(CONFIDENCE)
    return Equivalence(margin, low, high, no_worse, equivalent, no_worse, equivalent)


def equivalences(summary: Summary) -> Mapping[tuple[str, str], Equivalence]:
    """Return the tests of a table's last column: cell and encoder -> test, where it has a p-value.

    Empty if the study has no margin, or the column no better and worse.
    """
    margin, column = summary.equivalence, summary.columns[-1]
    if margin is None or not column.ranked:
        return {}
    found = {
        row.key: equivalence_of(judged.estimate, margin, column.lower)
        for row in summary.rows
        if (judged := row.cells[-1].judged) is not None and judged.p_value is not None
    }
    no_worse = holm({key: one.no_worse for key, one in found.items()}, summary.looks)
    equivalent = holm({key: one.equivalent for key, one in found.items()}, summary.looks)
    return {
        key: attrs.evolve(one, corrected_no_worse=no_worse[key], corrected_equivalent=equivalent[key])
        for key, one in found.items()
    }
