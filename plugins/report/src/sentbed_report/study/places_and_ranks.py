"""Places and ranks of the rows in the columns of a study's table.

A place (1 or 2) marks the best and second-best score of a whole column; a rank counts within a group of rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from sentbed_report.study.summary_row import SummaryRow
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import MEAN_DECIMALS


def add_places(table: Summary) -> None:
    """Add places, and ranks if the study asks for them, to the rows that have finished with all seeds."""
    for index, column in enumerate(table.columns):
        if not column.ranked:
            continue
        rows = []
        for row in table.rows:
            if row.status == "finished" and row.cells[index].is_finite:
                rows.append(row)

        _add_places_of_column(rows, index, column)
        if table.ranked_within is not None:
            _add_ranks(rows, index, column, table.ranked_within)


def _add_places_of_column(
    rows: Sequence[SummaryRow], index: int, column: Column
) -> None:
    """Add place 1 to the best rows and place 2 to the second best; rows that are printed equal share a place."""
    worths = [row.worth(index, column, column.digits) for row in rows]
    best_first = sorted(set(worths), reverse=True)
    if len(best_first) < 2:
        return

    for row, worth in zip(rows, worths, strict=True):
        if worth == best_first[0]:
            row.cells[index].place = 1
        elif worth == best_first[1]:
            row.cells[index].place = 2


def _add_ranks(
    rows: Sequence[SummaryRow], index: int, column: Column, axes: Sequence[str]
) -> None:
    """Add the rank of each row among those with equal labels on `axes`; equal means share a rank."""
    groups: defaultdict[tuple[str | None, ...], list[SummaryRow]] = defaultdict(list)
    for row in rows:
        labels = tuple(map(row.labels.get, axes))
        groups[labels].append(row)

    for group in groups.values():
        worths = [row.worth(index, column, MEAN_DECIMALS) for row in group]
        best_first = sorted(worths, reverse=True)
        for row, worth in zip(group, worths, strict=True):
            row.cells[index].rank = 1 + best_first.index(worth)
