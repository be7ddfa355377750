"""Tests of equivalence in a table; see `sentbed_report.statistics.equivalence`."""

from __future__ import annotations

import attrs

from sentbed_report.statistics.equivalence import equivalences_of
from sentbed_report.study.observed_power import judged_rows
from sentbed_report.study.summary_tables import Summary


def with_equivalence(summary: Summary) -> Summary:
    """Return the table with equivalence tests in its last column, for each number that has a p-value.

    It is returned unchanged if the study has no margin, or the column no direction.
    """
    column = summary.columns[-1]
    if summary.equivalence is None or not column.ranked:
        return summary
    estimates = {
        id(row.cells[-1]): judged.estimate for row, judged in judged_rows(summary)
    }
    tests = equivalences_of(estimates, summary.equivalence, column.lower, summary.looks)
    return summary.with_estimates(
        lambda cell: attrs.evolve(cell, equivalence=tests.get(id(cell)))
    )
