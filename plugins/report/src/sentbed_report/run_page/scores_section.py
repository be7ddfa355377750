"""The scores of a run: its tables are those of a study with one cell."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from sentbed.protocols import START, Score

from sentbed_report.comparability import evaluation_protocol
from sentbed_report.formatting import chance, pairing, resampling_sentence
from sentbed_report.page.sections import Section, Value, table_of
from sentbed_report.run_report import Bootstrapped, Difference, RunReport
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData
from sentbed_report.study.summary_row import SummaryRow
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Table


def run_summaries(data: RunReport) -> tuple[Summary, ...]:
    """Return the tables of a run, an encoder a row, also as it was before training.

    Numbers have their change from before training, and their bootstrap interval if there is one.
    """
    run = CellRun(data.name, 0, "finished", scores=data.scores)
    study = StudyData(
        data.name, (), (CellInfo(data.name, {}, (run,)),), None, (0,), groups=False
    )
    intervals = _intervals(data.scores, data.bootstrap)
    return tuple(
        _with_changes(summary, intervals) for summary in summarise(study, start=True)
    )


def _intervals(
    scores: Sequence[Score], bootstrap: Bootstrapped | None
) -> Mapping[str, tuple[float, float] | None]:
    """Return the interval of each score by its place in a table."""
    if bootstrap is None:
        return {}
    intervals: dict[str, tuple[float, float] | None] = {}
    for score, interval in zip(scores, bootstrap.intervals, strict=True):
        protocol = evaluation_protocol(score)
        key = _key(score.encoder, score.evaluator, score.task, score.metric, protocol)
        intervals.setdefault(key, interval)
    return intervals


def _key(
    encoder: str, evaluator: str, task: str, metric: str, protocol: Mapping[str, Any]
) -> str:
    return json.dumps([encoder, evaluator, task, metric, protocol])


def _with_changes(
    summary: Summary, intervals: Mapping[str, tuple[float, float] | None]
) -> Summary:
    by_encoder = {row.encoder: row for row in summary.rows}
    rows = []
    for row in summary.rows:
        before = by_encoder.get(row.encoder + START)
        cells = []
        for place, (column, cell) in enumerate(
            zip(summary.columns, row.cells, strict=True)
        ):
            key = _key(
                row.encoder,
                summary.evaluator,
                column.task,
                column.metric,
                column.protocol,
            )
            change = _change(cell, before, place)
            cells.append(attrs.evolve(cell, change=change, interval=intervals.get(key)))
        rows.append(attrs.evolve(row, cells=tuple(cells)))
    return attrs.evolve(summary, rows=tuple(rows))


def _change(cell: Estimate, before: SummaryRow | None, place: int) -> float | None:
    if before is None or cell.value is None:
        return None
    start = before.cells[place].value
    return None if start is None else cell.value - start


def run_table(summary: Summary) -> Table:
    """Return a table of a run, whose rows are encoders."""
    table = summary.table
    headers = tuple(
        attrs.evolve(header, shown=header.name == "encoder") for header in table.headers
    )
    # A run has one number of each score: nothing is said of seeds.
    notes = tuple(note for note in table.notes if note != summary.over)
    return attrs.evolve(table, title=summary.note, headers=headers, notes=notes)


def scores_section(data: RunReport, summaries: Sequence[Summary]) -> Section | None:
    """Return the scores of a run; None without any."""
    if not summaries:
        return None
    notes = []
    if data.bootstrap is not None:
        notes.append(
            resampling_sentence(data.bootstrap.resamples, data.bootstrap.confidence)
        )
    skipped = dict.fromkeys(task for score in data.scores for task in score.skipped)
    if skipped:
        listed = ", ".join(skipped)
        notes.append(
            f"Left out, as their data is missing: {listed}; the row is not complete."
        )
    return Section(
        "Scores", tables=[*map(run_table, summaries)], notes=notes, is_open=True
    )


def differences_section(data: RunReport) -> Section | None:
    """Return the comparisons of a run's encoders; None without any."""
    if data.bootstrap is None or not data.bootstrap.differences:
        return None
    differences = data.bootstrap.differences
    groups: dict[int, list[Difference]] = {}
    for difference in differences:
        groups.setdefault(difference.digits, []).append(difference)
    tables = []
    for digits, of_group in groups.items():
        columns = (Column("second − first", form="signed", digits=digits), "p")
        tables.append(
            table_of("", _DIFFERENCE_HEADERS, columns, map(_difference_row, of_group))
        )
    note = pairing(len(differences), data.bootstrap.resamples)
    return Section(
        "Differences", "between the encoders of this run", tables=tables, notes=[note]
    )


_DIFFERENCE_HEADERS = ("task", "metric", "evaluator", "protocol", "first", "second")


def _difference_row(difference: Difference) -> Sequence[Value]:
    score, comparison = difference.score, difference.comparison
    number = Estimate(
        value=comparison.difference, interval=(comparison.low, comparison.high)
    )
    return (
        score.task,
        score.metric,
        score.evaluator,
        score.protocol_name,
        difference.first,
        difference.second,
        number,
        chance(comparison.p_value),
    )
