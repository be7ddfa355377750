"""Tests of equivalence in a table; see `sentbed_report.statistics.equivalence`."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed_report.statistics.equivalence import Equivalence, equivalences_of
from sentbed_report.study.observed_power import judged_rows
from sentbed_report.study.summary_tables import Summary


def equivalences(summary: Summary) -> Mapping[tuple[str, str], Equivalence]:
    """Return the tests of a table's last column: cell and encoder -> test, where it has a p-value.

    Empty if the study has no margin, or the column no better and worse.
    """
    column = summary.columns[-1]
    if summary.equivalence is None or not column.ranked:
        return {}
    estimates = {row.key: judged.estimate for row, judged in judged_rows(summary)}
    return equivalences_of(estimates, summary.equivalence, column.lower, summary.looks)
