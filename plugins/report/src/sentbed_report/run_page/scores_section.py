"""Sections with the scores of a run. Its tables are made as those of a study whose only cell is the run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

import attrs
from sentbed.helpers import score_digits
from sentbed.protocols import START

from sentbed_report.formatting import chance, count
from sentbed_report.page.sections import Section, Value, table_of
from sentbed_report.run_report import RunReport
from sentbed_report.score_intervals import ScoreInterval
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData
from sentbed_report.study.summary_row import SummaryRow
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Table

_INTERVAL_HEADERS = ("encoder", "task", "metric", "evaluator", "protocol")


def run_summaries(data: RunReport) -> tuple[Summary, ...]:
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


def run_table(summary: Summary) -> Table:
    """Return a table of a run for readers, with one row per encoder."""
    table = summary.table
    headers = []
    for header in table.headers:
        headers.append(attrs.evolve(header, shown=header.name == "encoder"))
    # The note on seeds is left out, since a run has one number per score.
    notes = tuple(note for note in table.notes if note != summary.over)
    return attrs.evolve(
        table,
        title=summary.note,
        headers=tuple(headers),
        notes=notes,
    )


def scores_section(data: RunReport, summaries: Sequence[Summary]) -> Section | None:
    """Return the section with the scores of a run; None if it has no tables."""
    if not summaries:
        return None
    notes = []
    skipped = dict.fromkeys(chain.from_iterable(score.skipped for score in data.scores))
    if skipped:
        tasks = ", ".join(skipped)
        notes.append(
            f"Left out, as their data is missing: {tasks}; the row is not complete."
        )
    tables = [*map(run_table, summaries)]
    return Section(
        "Scores",
        tables=tables,
        notes=notes,
        is_open=True,
    )


def intervals_section(intervals: Sequence[ScoreInterval]) -> Section | None:
    """Return the section with intervals of scores, and of their changes by training; None if there are none."""
    if not intervals:
        return None

    # One table for each number of decimals.
    groups: dict[int, list[ScoreInterval]] = {}
    for interval in intervals:
        digits = score_digits([interval.score.value])
        groups.setdefault(digits, []).append(interval)
    tables = []
    for digits, of_group in groups.items():
        columns = (
            Column("score", digits=digits),
            Column("change by training", form="signed", digits=digits),
            "p",
        )
        rows = map(_interval_row, of_group)
        tables.append(table_of("", _INTERVAL_HEADERS, columns, rows))
    return Section(
        "Intervals",
        f"of 95 %, over the items of {count(len(intervals), 'score')}",
        tables=tables,
        notes=[
            "Intervals show how much scores depend on the items. How much they depend on training is shown by "
            "a study with several seeds. Changes are tested over the items, like differences in a study: "
            "† p < 0.05, ‡ p < 0.01, not corrected for the number of scores. `sentbed compare` compares "
            "other encoders."
        ],
    )


def _interval_row(interval: ScoreInterval) -> Sequence[Value]:
    score, change = interval.score, interval.change
    row: list[Value] = [
        score.encoder,
        score.task,
        score.metric,
        score.evaluator,
        score.protocol_name,
        Estimate(value=score.value, interval=interval.interval),
    ]
    if change is None or change.p_value is None:
        return [*row, None, None]
    difference = Estimate(value=change.difference, interval=change.interval)
    return [*row, difference, chance(change.p_value)]
