"""Comparison of published numbers with those of a study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs
from sentbed.protocols import ExpectedRow

from sentbed_report.study.published_number_config import Published, Reference
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_row import SummaryRow
from sentbed_report.study.summary_tables import ReferenceRow, Summary
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate


@attrs.frozen
class Number:
    """A published number of a cell, and the study's number of this cell."""

    cell: str
    row: ExpectedRow
    """The comparison; `source` begins with the name of the published table."""


def with_published(
    data: StudyData, summaries: Sequence[Summary]
) -> tuple[Summary, ...]:
    """Return the tables, with published numbers added to the study's numbers, and with rows of other systems."""
    # Estimates are identified by `id`, since several cells of the table may have equal numbers.
    numbers: dict[int, list[ExpectedRow]] = {}
    for number, estimates in _numbers_with_estimates(data, summaries):
        if len(estimates) == 1:
            (estimate,) = estimates
            numbers.setdefault(id(estimate), []).append(number.row)

    def with_numbers(estimate: Estimate) -> Estimate:
        rows = numbers.get(id(estimate), [])
        return attrs.evolve(estimate, published=tuple(rows))

    published = []
    for summary in summaries:
        references = tuple(_reference_rows(data, summaries, summary))
        with_rows = attrs.evolve(summary, references=references)
        published.append(with_rows.with_estimates(with_numbers))
    return tuple(published)


def published_numbers(
    data: StudyData, summaries: Sequence[Summary]
) -> tuple[Number, ...]:
    """Return every published number with the study's number, in the recipe's order."""
    return tuple(number for number, _ in _numbers_with_estimates(data, summaries))


def _numbers_with_estimates(
    data: StudyData, summaries: Sequence[Summary]
) -> Iterator[tuple[Number, list[Estimate]]]:
    """Yield every published number and the estimates that its key matches, in the recipe's order."""
    for title, published in data.expected.items():
        for cell, numbers in published.cells.items():
            for key in numbers:
                estimates = _estimates_of_key(summaries, cell, key, numbers)
                row = _compared_number(title, published, cell, key, estimates)
                yield Number(cell, row), estimates


def _reference_rows(
    data: StudyData,
    summaries: Sequence[Summary],
    summary: Summary,
) -> Iterator[ReferenceRow]:
    """Yield a row for each reference system that has a number in any column of the table."""
    if not summary.rows:
        return
    for name, reference in data.references.items():
        values = _numbers_of_cell(summary, reference.cell)
        if values is None:
            values = _numbers_of_system(summaries, summary, reference)
        if any(value is not None for value in values):
            yield ReferenceRow(name, reference.source, reference.cell, tuple(values))


def _numbers_of_cell(summary: Summary, cell: str) -> list[float | None] | None:
    """Return the numbers of a cell in the table's columns; None if it has no finished row."""
    for row in summary.rows:
        if row.cell == cell and row.status == "finished":
            return [estimate.value for estimate in row.cells]
    return None


def _numbers_of_system(
    summaries: Sequence[Summary],
    summary: Summary,
    reference: Reference,
) -> list[float | None]:
    """Return a system's published number for each column of a table; None in columns without a number."""
    any_row = attrs.evolve(summary.rows[0], encoder="")
    values: list[float | None] = []
    for column in summary.columns:
        keys: set[str] = set()
        if _is_comparable(summaries, summary, any_row, column, reference.scores):
            keys = _keys_of_estimate(summary, any_row, column)
        value = None
        for key, score in reference.scores.items():
            if key in keys and value is None:
                value = score
        values.append(value)
    return values


def _estimates_of_key(
    summaries: Sequence[Summary],
    cell: str,
    key: str,
    numbers: Mapping[str, float],
) -> list[Estimate]:
    """Return the estimates of a cell that a key matches; `numbers` are all published numbers of the cell."""
    estimates = []
    measured = []
    for summary in summaries:
        for row in summary.rows:
            if row.cell != cell:
                continue
            for column, estimate in zip(summary.columns, row.cells, strict=True):
                if key not in _keys_of_estimate(summary, row, column):
                    continue
                if _is_comparable(summaries, summary, row, column, numbers):
                    estimates.append(estimate)
                    if estimate.seeds:
                        measured.append(estimate)

    # A cell that has not finished has a row in every table, even in tables where it will have no score.
    return measured or estimates[:1]


def _is_comparable(
    summaries: Sequence[Summary],
    summary: Summary,
    row: SummaryRow,
    column: Column,
    numbers: Mapping[str, float],
) -> bool:
    """Whether a published number can be compared with a column; it always can, unless the column is an average.

    An average that lacks some of its tasks cannot be compared. An average that the report computes can be
    compared if it is over exactly the tasks for which the paper has numbers. Numbers that belong to columns of
    other tables, such as transfer tasks beside STS tasks, are ignored.
    """
    if column.part:
        return False
    if not column.average or column.protocol:
        return True

    keys_of_other_tables: set[str] = set()
    for other in summaries:
        if other is summary:
            continue
        for other_row in other.rows:
            if other_row.cell == row.cell:
                for other_column in other.columns:
                    keys_of_other_tables |= _keys_of_estimate(
                        other, other_row, other_column
                    )
    keys_of_tasks = (
        numbers.keys() - _keys_of_estimate(summary, row, column) - keys_of_other_tables
    )

    tasks = [task for task in summary.columns if not task.average]
    for task in tasks:
        if keys_of_tasks.isdisjoint(_keys_of_estimate(summary, row, task)):
            return False
    return len(keys_of_tasks) == len(tasks)


def _keys_of_estimate(
    summary: Summary,
    row: SummaryRow,
    column: Column,
) -> set[str]:
    """Return the keys of `[study.expected]` that match a row's estimate in a column."""
    metric = f"{column.task}/{column.metric}"
    keys = {metric, f"{metric}@{summary.protocol}"}
    if not summary.metric:
        # A key without a metric means the task's first metric.
        keys.add(column.task)
    with_encoder = {f"{row.encoder}/{key}" for key in keys}
    return keys | with_encoder


def _compared_number(
    title: str,
    published: Published,
    cell: str,
    key: str,
    estimates: Sequence[Estimate],
) -> ExpectedRow:
    """Return a published number, with the study's number if exactly one estimate matches its key."""
    source = title
    if published.source:
        source = f"{title} ({published.source})"
    contradicted = published.contradicted.get(cell, "")
    tolerance = published.tolerance
    if contradicted:
        tolerance = None
    value = None
    if len(estimates) == 1:
        value = estimates[0].value
    return ExpectedRow(
        key,
        value=published.cells[cell][key],
        tolerance=tolerance,
        source=source,
        found=value,
        fits=max(1, len(estimates)),
        contradicted=contradicted,
    )
