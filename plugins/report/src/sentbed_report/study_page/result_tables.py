"""Printed form of a study's tables for the page and Markdown: text and marks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import attrs
from sentbed.protocols import ExpectedRow
from sentbed.tools import plain

from sentbed_report.format_independent_table import PrintedCell, PrintedTable
from sentbed_report.formatting import expected_digits, expected_verdict, number, probability, signed, spread
from sentbed_report.score_tables import shown
from sentbed_report.statistics.resampling import CONFIDENCE
from sentbed_report.statistics.significance import Judged
from sentbed_report.study.study_data import CellInfo, StudyData
from sentbed_report.study.summary_tables import Measured, Summary, SummaryColumn, SummaryRow

Kind: TypeAlias = Literal["better", "worse", ""]


@attrs.frozen
class PublishedText:
    """Published number, compared with ours."""

    text: str
    """The number, and in brackets ours less it."""
    title: str
    """The table that has it."""
    kind: Literal["met", "unmet", ""]
    """Whether it was reproduced; empty where it decides nothing."""


@attrs.frozen
class Entry(PrintedCell):
    """One number of a table."""

    value: float | None = None
    """Sort key; None if nothing was measured, or it is not finite."""
    kind: Kind = ""
    """What a sign says against the baseline; empty where neither is better."""
    tip: str = ""
    published: tuple[PublishedText, ...] = ()


@attrs.frozen
class Heading:
    """Of a column."""

    text: str
    average: bool


@attrs.frozen
class Line:
    """A row: a cell, or an encoder of it."""

    cell: CellInfo
    name: str
    remark: str
    entries: tuple[Entry, ...]


@attrs.frozen
class ReferenceLine:
    """A row below the cells: published numbers of another system."""

    name: str
    source: str
    entries: tuple[str, ...]


@attrs.frozen
class ResultTable:
    """Printed form of a `Summary`."""

    title: str
    note: str
    headings: tuple[Heading, ...]
    rows: tuple[Line, ...]
    remarks: tuple[str, ...]
    """Remarks on the numbers."""
    printed: PrintedTable
    """What other formats print."""
    references: tuple[ReferenceLine, ...]
    """Published numbers of other systems."""
    protocol: tuple[tuple[str, str], ...]
    """Its entries: those that all columns share, then those of one column."""


def result_table(summary: Summary, data: StudyData) -> ResultTable:
    """Return the printed form of a table."""
    cells = {cell.name: cell for cell in data.cells}
    headings = zip(summary.headings, summary.columns, strict=True)
    return ResultTable(
        title=summary.evaluator,
        note=summary.note.removeprefix(f"{summary.evaluator}; "),
        headings=tuple(Heading(text, column.average) for text, column in headings),
        rows=tuple(
            Line(cells[row.cell], row.name, row.remark, _entries(row, summary)) for row in summary.rows
        ),
        remarks=summary.said,
        printed=summary.printed,
        references=tuple(
            ReferenceLine(one.name, one.source, tuple(map(number, one.values, summary.decimals)))
            for one in summary.references
            if not one.cell
        ),
        protocol=_protocol(summary),
    )


def _entries(row: SummaryRow, summary: Summary) -> tuple[Entry, ...]:
    found = zip(row.cells, summary.columns, summary.decimals, strict=True)
    return tuple(_entry(cell, column, summary, digits) for cell, column, digits in found)


def _entry(found: Measured, column: SummaryColumn, summary: Summary, digits: int) -> Entry:
    judged, mean = found.judged, found.mean
    printed = found.printed(digits)
    kind: Kind = ""
    if judged is not None and printed.sign and judged.difference is not None and column.ranked:
        kind = "better" if (judged.difference > 0) != column.lower else "worse"
    return Entry(
        **attrs.asdict(printed),
        value=mean if mean is not None and math.isfinite(mean) else None,
        kind=kind,
        tip=_tip(judged, summary) if judged is not None and printed.sign else "",
        published=tuple(_published(row) for row in found.published),
    )


def _tip(judged: Judged, summary: Summary) -> str:
    places = summary.digits
    parts = [f"{signed(judged.difference, places)} against {summary.baseline}"]
    if judged.low is not None and judged.high is not None:
        parts.append(f"{100 * CONFIDENCE:g} % interval {spread((judged.low, judged.high), places)}")
    if judged.p_value is not None and judged.corrected is not None:
        p_value, corrected = map(probability, (judged.p_value, judged.corrected))
        parts.append(f"p {_related(p_value)}; after Holm's correction p {_related(corrected)}")
    if judged.basis:
        parts.append(f"over {judged.basis}")
    return "\n".join(parts)


def _related(p_value: str) -> str:
    return p_value if p_value.startswith("<") else f"= {p_value}"


def _published(row: ExpectedRow) -> PublishedText:
    digits = expected_digits(row)
    text = number(row.value, digits)
    if row.difference is not None:
        text += f" ({signed(row.difference, digits)})"
    verdict = "" if row.met is None else "met" if row.met else "unmet"
    title = row.source
    if row.decides:
        title += f": {expected_verdict(row)}, ±{number(row.tolerance, digits)}"
    elif row.contradicted:
        title += f": contradicted, since {row.contradicted}"
    return PublishedText(text, title, verdict)  # type: ignore[arg-type]


def _protocol(summary: Summary) -> tuple[tuple[str, str], ...]:
    entries = [
        (column.task, {str(k): shown(plain(v)) for k, v in column.protocol.items()})
        for column in summary.columns
        if column.protocol
    ]
    names = dict.fromkeys(name for _, protocol in entries for name in protocol)
    common: list[tuple[str, str]] = []
    varying: list[tuple[str, str]] = []
    for name in names:
        values = [protocol.get(name, "–") for _, protocol in entries]
        if len(set(values)) == 1:
            common.append((name, values[0]))
        else:
            varying += ((f"{name} of {task}", v) for (task, _), v in zip(entries, values, strict=True))
    return (*common, *varying)


def result_tables(summaries: Sequence[Summary], data: StudyData) -> tuple[ResultTable, ...]:
    """Return the printed form of all tables."""
    return tuple(result_table(summary, data) for summary in summaries)
