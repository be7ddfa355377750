"""Comparison of published numbers with those of a study."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs
from sentbed.protocols import ExpectedRow

from sentbed_report.formatting import expected_digits, expected_verdict, number, signed
from sentbed_report.markdown_report import escape, markdown_table
from sentbed_report.study.published_number_config import Published
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Measured, ReferenceRow, Summary, SummaryColumn, SummaryRow


@attrs.frozen
class Number:
    """Number of a published table, with the one found by the study."""

    cell: str
    row: ExpectedRow
    """`source` begins with the name of the table."""


def with_published(data: StudyData, summaries: Sequence[Summary]) -> tuple[Summary, ...]:
    """Return the tables with published numbers added to the values that they name, and the references."""
    return tuple(
        attrs.evolve(
            summary,
            references=tuple(_references(data, summaries, summary)),
            rows=tuple(
                attrs.evolve(
                    row,
                    cells=tuple(
                        attrs.evolve(cell, published=tuple(_beside(data, summaries, row.cell, cell)))
                        for cell in row.cells
                    ),
                )
                for row in summary.rows
            ),
        )
        for summary in summaries
    )


def published_numbers(data: StudyData, summaries: Sequence[Summary]) -> tuple[Number, ...]:
    """Return every published number with the one found, in the recipe's order."""
    return tuple(
        Number(name, _compared(title, published, name, key, _named(summaries, name, key, numbers)))
        for title, published in data.expected.items()
        for name, numbers in published.cells.items()
        for key in numbers
    )


def published_table(numbers: Iterable[Number]) -> str:
    """Return a Markdown table of published numbers with those found."""
    heading = ["cell", "number", "found", "published", "difference", "tolerance", "", "source"]
    return markdown_table(heading, map(_published, numbers), numbers=range(2, 6))


def _published(one: Number) -> list[str]:
    row = one.row
    return [
        escape(one.cell),
        escape(row.key),
        number(row.found, expected_digits(row)),
        number(row.value, expected_digits(row)),
        signed(row.difference, expected_digits(row)),
        f"±{number(row.tolerance, expected_digits(row))}" if row.decides else "–",
        f"**{expected_verdict(row)}**" if row.met is False else escape(expected_verdict(row)),
        escape(row.source),
    ]


def _beside(
    data: StudyData, summaries: Sequence[Summary], cell: str, measured: Measured
) -> Iterator[ExpectedRow]:
    """Yield the published numbers that match only this value of a cell."""
    for title, published in data.expected.items():
        numbers = published.cells.get(cell, {})
        for key in numbers:
            found = _named(summaries, cell, key, numbers)
            if len(found) == 1 and found[0] is measured:
                yield _compared(title, published, cell, key, found)


def _references(data: StudyData, summaries: Sequence[Summary], summary: Summary) -> Iterator[ReferenceRow]:
    """Yield the systems that have a number in a column of a table."""
    if not summary.rows:
        return
    any_row = attrs.evolve(summary.rows[0], encoder="")
    for name, reference in data.references.items():
        own = next(
            (row for row in summary.rows if row.cell == reference.cell and row.status == "finished"), None
        )
        if own is not None:
            values = [cell.mean for cell in own.cells]
        else:
            keys = [
                _keys(summary, any_row, column)
                if not column.part
                and (
                    not column.average
                    or column.protocol
                    or _is_mean_of(summaries, summary, any_row, column, reference.scores)
                )
                else set()
                for column in summary.columns
            ]
            values = [
                next((v for key, v in reference.scores.items() if key in named), None) for named in keys
            ]
        if any(value is not None for value in values):
            yield ReferenceRow(name, reference.source, reference.cell, tuple(values))


def _named(summaries: Sequence[Summary], cell: str, key: str, numbers: Mapping[str, float]) -> list[Measured]:
    """Return the values of a cell that a key matches; `numbers` are all published ones of the cell."""
    found = [
        measured
        for summary in summaries
        for row in summary.rows
        if row.cell == cell
        for column, measured in zip(summary.columns, row.cells, strict=True)
        if key in _keys(summary, row, column)
        and not column.part
        and (not column.average or column.protocol or _is_mean_of(summaries, summary, row, column, numbers))
    ]
    # A cell that has not finished has a place in every table, also in those where it will have no score.
    return [one for one in found if one.values] or found[:1]


def _is_mean_of(
    summaries: Sequence[Summary],
    summary: Summary,
    row: SummaryRow,
    average: SummaryColumn,
    numbers: Mapping[str, float],
) -> bool:
    """Whether an average computed here covers exactly the tasks for which the paper has numbers.

    A number of another table's column, such as a transfer task beside STS tasks, is not of this average.
    """
    elsewhere = [
        key
        for other in summaries
        if other is not summary
        for there in other.rows
        if there.cell == row.cell
        for column in other.columns
        for key in _keys(other, there, column)
    ]
    others = numbers.keys() - _keys(summary, row, average) - set(elsewhere)
    tasks = [_keys(summary, row, column) for column in summary.columns if not column.average]
    return len(others) == len(tasks) and all(others & keys for keys in tasks)


def _keys(summary: Summary, row: SummaryRow, column: SummaryColumn) -> set[str]:
    """Return the keys of `[study.expected]` that name a value; they are those of `[expected]`."""
    metric = f"{column.task}/{column.metric}"
    keys = {metric, f"{metric}@{summary.protocol}"}
    if not summary.metric:
        # Without a metric, the first one that an evaluator gives of the task is meant.
        keys.add(column.task)
    return keys | {f"{row.encoder}/{key}" for key in keys}


def _compared(
    title: str, published: Published, cell: str, key: str, found: Sequence[Measured]
) -> ExpectedRow:
    contradicted = published.contradicted.get(cell, "")
    return ExpectedRow(
        key,
        value=published.cells[cell][key],
        tolerance=None if contradicted else published.tolerance,
        source=f"{title} ({published.source})" if published.source else title,
        found=found[0].mean if len(found) == 1 else None,
        fits=max(1, len(found)),
        contradicted=contradicted,
    )
