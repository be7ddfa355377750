"""Section with the scores of a run. Its tables are made as those of a study whose only cell is the run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain

import attrs
from sentbed.protocols import START, ReportData

from sentbed_report.formatting import interval_text, sign_of, signed
from sentbed_report.page.sections import Section, table_of
from sentbed_report.statistics.difference import judge
from sentbed_report.statistics.score_interval import mean_interval
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData
from sentbed_report.study.summary_row import SummaryRow
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Header


def run_summaries(data: ReportData) -> tuple[Summary, ...]:
    """Return the tables of a run with one row per encoder; an encoder before training has its own row.

    A number after training also has its change by training: the difference from the number before training.
    """
    run = CellRun(data.name, 0, "finished", scores=data.scores)
    cell = CellInfo(data.name, {}, (run,))
    study = StudyData(data.name, (), (cell,), None, (0,))
    return tuple(map(_with_changes, summarise(study, start=True)))


def _with_changes(summary: Summary) -> Summary:
    """Return a table in which numbers after training also have their change by training."""
    by_encoder = {row.encoder: row for row in summary.rows}
    rows = []
    for row in summary.rows:
        before = by_encoder.get(row.encoder + START)
        cells = []
        for place, cell in enumerate(row.cells):
            change = _change(cell, before, place)
            cells.append(attrs.evolve(cell, change=change))
        rows.append(attrs.evolve(row, cells=tuple(cells)))
    return attrs.evolve(summary, rows=tuple(rows))


def _change(
    cell: Estimate,
    before: SummaryRow | None,
    place: int,
) -> float | None:
    if before is None or cell.value is None:
        return None
    start = before.cells[place].value
    if start is None or not math.isfinite(cell.value - start):
        return None
    return cell.value - start


def scores_section(data: ReportData, summaries: Sequence[Summary]) -> Section | None:
    """Return the section with the scores of a run, a row per task and metric; None if it has no tables."""
    if not summaries:
        return None
    rows: list[Sequence[str]] = []
    for summary in summaries:
        for place, column in enumerate(summary.columns):
            rows += _rows_of_column(summary, place, column)

    several = len({row[3] for row in rows}) > 1
    headers = (
        Header("task"),
        Header("metric"),
        Header("evaluator"),
        Header("encoder", shown=several),
    )
    columns = ["before", "after", "95 % interval", "change", "95 % interval"]
    notes = [
        "Intervals are over the items of the test set, not over trainings: a study with several seeds shows how "
        "much those differ. † p < 0.05, ‡ p < 0.01 for the change, not corrected for the number of scores."
    ]
    skipped = dict.fromkeys(chain.from_iterable(score.skipped for score in data.scores))
    if skipped:
        notes.append(f"Left out, as their data is missing: {', '.join(skipped)}.")
    table = table_of("", headers, columns, rows)
    return Section("Scores", tables=[table], notes=notes, is_open=True)


def _rows_of_column(
    summary: Summary,
    place: int,
    column: Column,
) -> Iterator[Sequence[str]]:
    """Yield a row per encoder: task, metric, evaluator, encoder, and the numbers before and after training."""
    estimates = {row.encoder: row.cells[place] for row in summary.rows}
    for encoder in dict.fromkeys(name.removesuffix(START) for name in estimates):
        before = estimates.get(encoder + START, Estimate())
        after = estimates.get(encoder, Estimate())
        if before.value is None and after.value is None:
            continue

        of_score = of_change = mark = ""
        if after.scores is not None:
            interval, _ = mean_interval(after.scores)
            of_score = interval_text(interval, column.digits)
        if after.scores is not None and before.scores is not None:
            test = judge([(-1.0, before.scores), (1.0, after.scores)])
            of_change = interval_text(test.interval, column.digits)
            mark = sign_of(test.p_value)
        change = ""
        if after.change is not None:
            change = signed(after.change, column.digits) + mark
        yield (
            column.heading,
            column.metric,
            ", ".join(filter(None, (*summary.names, summary.apart))),
            encoder,
            column.text(before.value),
            column.text(after.value),
            of_score,
            change,
            of_change,
        )
