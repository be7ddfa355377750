"""Equivalence tests in the last column of a table; see `sentbed_report.statistics.equivalence`."""

from __future__ import annotations

import attrs

from sentbed_report.statistics.equivalence import equivalences_of
from sentbed_report.study.observed_power import judged_rows
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.estimate import Estimate


def with_equivalence(summary: Summary) -> Summary:
    """Return the table with equivalence tests of the rows that have a p-value in the last column.

    The table is returned unchanged if the study sets no margin, or if neither higher nor lower scores are
    better in the column.
    """
    column = summary.columns[-1]
    if summary.equivalence is None or not column.ranked:
        return summary

    # Estimates are identified by `id`, since several rows may have equal numbers.
    differences = {}
    for row, judged in judged_rows(summary):
        differences[id(row.cells[-1])] = judged.estimate
    tests = equivalences_of(differences, summary.equivalence, column.lower)

    def with_test(cell: Estimate) -> Estimate:
        return attrs.evolve(cell, equivalence=tests.get(id(cell)))

    return summary.with_estimates(with_test)
