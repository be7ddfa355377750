"""Places and ranks of the rows in a column of a study's table.

A place (1 or 2) marks the best and second-best score of the whole column; a rank counts within a group of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from sentbed_report.study.scored_columns import ScoredColumn
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_row import RowKey
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import MEAN_DECIMALS, Estimate, Place


def ranked_rows(data: StudyData, keys: Sequence[RowKey]) -> list[RowKey]:
    """Return the rows that get places and ranks.

    Their cells (combinations of the values of the study's axes) have finished with all seeds.
    """
    complete = set()
    for cell in data.cells:
        if cell.status == "finished":
            complete.add(cell.name)

    rows = []
    for key in keys:
        cell_name, _ = key
        if cell_name in complete:
            rows.append(key)
    return rows


def with_marks(
    data: StudyData,
    scored: ScoredColumn,
    ranked: Sequence[RowKey],
    digits: int,
) -> ScoredColumn:
    """Return a column with places and ranks among the rows `ranked`."""
    if not scored.column.ranked:
        return scored

    means = {}
    for row in ranked:
        estimate = scored.estimates.get(row, Estimate())
        if estimate.value is not None and estimate.is_finite:
            means[row] = estimate.value

    places = _places(scored.column, means, digits)
    ranks = _ranks(data, scored.column, means)
    estimates = {}
    for row, estimate in scored.estimates.items():
        estimates[row] = attrs.evolve(
            estimate, place=places.get(row), rank=ranks.get(row)
        )
    return attrs.evolve(scored, estimates=estimates)


def _places(
    column: Column,
    means: Mapping[RowKey, float],
    digits: int,
) -> dict[RowKey, Place]:
    """Return place 1 for the best rows and place 2 for the second best.

    Rows whose means are printed equal share a place.
    """
    printed = {row: round(mean, digits) for row, mean in means.items()}
    distinct = sorted(set(printed.values()), reverse=column.direction == "higher")
    if len(distinct) < 2:
        return {}

    places: dict[RowKey, Place] = {}
    for row, value in printed.items():
        if value == distinct[0]:
            places[row] = 1
        elif value == distinct[1]:
            places[row] = 2
    return places


def _ranks(
    data: StudyData,
    column: Column,
    means: Mapping[RowKey, float],
) -> dict[RowKey, int]:
    """Return the rank of each row in its group.

    A group has the rows whose cells have equal labels on the axes that `StudyData.ranks` names. Means are
    compared with more decimals than are printed. Equal means share the smallest of their ranks.
    """
    if data.ranks is None:
        return {}
    import pandas

    labels_of_cells = {}
    for cell in data.cells:
        labels = map(cell.labels.get, data.ranks)
        labels_of_cells[cell.name] = " ".join(map(repr, labels))
    labels_of_rows = [labels_of_cells[cell_name] for cell_name, _ in means]
    frame = pandas.DataFrame({"labels": labels_of_rows, "mean": list(means.values())})
    groups = frame.round(MEAN_DECIMALS).groupby("labels")["mean"]
    ranks = groups.rank("min", ascending=column.direction == "lower")
    return dict(zip(means, ranks.astype(int).tolist(), strict=True))
