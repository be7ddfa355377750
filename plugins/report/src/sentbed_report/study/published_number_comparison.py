"""Comparison of published numbers with those of a study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs
from sentbed.protocols import ExpectedRow

from sentbed_report.study.published_number_config import Published
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import ReferenceRow, Summary
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate


@attrs.frozen
class Number:
    """A published number of a cell, and the study's number of this cell."""

    cell: str
    row: ExpectedRow
    """The comparison; `source` begins with the name of the published table."""

    @property
    def is_missed(self) -> bool:
        """Whether the number has a tolerance and was measured, but not reproduced.

        A key that fits several scores is a miss, too: it compares nothing.
        """
        if not self.row.decides:
            return False
        return self.row.met is False or self.row.fits > 1


def with_published(data: StudyData, tables: Sequence[Summary]) -> tuple[Summary, ...]:
    """Return the tables, with published numbers added to the study's numbers, and with rows of other systems."""
    for number, estimates in _numbers_with_estimates(data, tables):
        if len(estimates) == 1:
            estimates[0].published += (number.row,)

    with_references = []
    for table in tables:
        references = tuple(_reference_rows(data, tables, table))
        with_references.append(attrs.evolve(table, references=references))
    return tuple(with_references)


def published_numbers(data: StudyData, tables: Sequence[Summary]) -> tuple[Number, ...]:
    """Return every published number with the study's number, in the recipe's order."""
    return tuple(number for number, _ in _numbers_with_estimates(data, tables))


def _numbers_with_estimates(
    data: StudyData, tables: Sequence[Summary]
) -> Iterator[tuple[Number, list[Estimate]]]:
    """Yield every published number and the estimates that its key matches, in the recipe's order."""
    for title, published in data.expected.items():
        for cell, numbers in published.cells.items():
            for key in numbers:
                estimates = _estimates_of_key(tables, cell, key, numbers)
                row = _compared_number(title, published, cell, key, estimates)
                yield Number(cell, row), estimates


def _estimates_of_key(
    tables: Sequence[Summary], cell: str, key: str, numbers: Mapping[str, float]
) -> list[Estimate]:
    """Return the estimates of a cell that a key matches; `numbers` are all published numbers of the cell."""
    estimates = []
    measured = []
    for table in tables:
        for row in table.rows:
            if row.cell != cell:
                continue
            for column, estimate in zip(table.columns, row.cells, strict=True):
                keys = _comparable_keys(tables, table, column, row.encoder, numbers)
                if key in keys:
                    estimates.append(estimate)
                    if estimate.seeds:
                        measured.append(estimate)

    # A cell that has not finished has a row in every table, even in tables where it will have no score.
    return measured or estimates[:1]


def _reference_rows(
    data: StudyData, tables: Sequence[Summary], table: Summary
) -> Iterator[ReferenceRow]:
    """Yield a row for each reference system that has a number in any column of the table."""
    for name, reference in data.references.items():
        values: list[float | None] = []
        for column in table.columns:
            keys = _comparable_keys(tables, table, column, "", reference.scores)
            value = None
            for key, score in reference.scores.items():
                if key in keys and value is None:
                    value = score
            values.append(value)

        for row in table.rows:
            if row.cell == reference.cell and row.status == "finished":
                values = [estimate.value for estimate in row.cells]
                break
        if any(value is not None for value in values):
            yield ReferenceRow(name, reference.source, reference.cell, tuple(values))


def _comparable_keys(
    tables: Sequence[Summary],
    table: Summary,
    column: Column,
    encoder: str,
    numbers: Mapping[str, float],
) -> set[str]:
    """Return the keys of `[study.expected]` that match an encoder's number in a column.

    There are none for an average that lacks some of its tasks. An average that the report computes has keys if
    it is over exactly the tasks for which the paper has `numbers`. Those that belong to other tables, such as
    transfer tasks beside STS tasks, are ignored.
    """
    keys = _keys(table, column, encoder)
    if column.part:
        return set()
    if not column.average or column.protocol:
        return keys

    for task in table.columns:
        if not task.average and numbers.keys().isdisjoint(_keys(table, task, encoder)):
            return set()
    keys_of_tables: set[str] = set()
    for other in tables:
        for other_column in other.columns:
            keys_of_tables |= _keys(other, other_column, encoder)
    if numbers.keys() <= keys_of_tables:
        return keys
    return set()


def _keys(table: Summary, column: Column, encoder: str) -> set[str]:
    """Return the keys that name an encoder's number in a column."""
    metric = f"{column.task}/{column.metric}"
    keys = {metric, f"{metric}@{table.protocol}"}
    if not table.metric:
        # A key without a metric means the task's first metric.
        keys.add(column.task)
    with_encoder = {f"{encoder}/{key}" for key in keys}
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
