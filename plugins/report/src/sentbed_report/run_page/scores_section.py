"""Section with the scores of a run. Its tables are made as those of a study whose only cell is the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from sentbed.protocols import START

from sentbed_report.formatting import interval_text, sign_of, signed
from sentbed_report.page.sections import Section, table_of
from sentbed_report.run_report import RunReport
from sentbed_report.score_intervals import ScoreInterval
from sentbed_report.score_protocols import evaluation_protocol
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Header


def run_summaries(data: RunReport) -> tuple[Summary, ...]:
    """Return the tables of a run with one row per encoder; an encoder before training has its own row."""
    run = CellRun(data.name, 0, "finished", scores=data.scores)
    cell = CellInfo(data.name, {}, (run,))
    study = StudyData(data.name, (), (cell,), None, (0,))
    return summarise(study, start=True)


def scores_section(data: RunReport, summaries: Sequence[Summary]) -> Section | None:
    """Return the section with the scores of a run, a row per task and metric; None if it has no tables."""
    if not summaries:
        return None
    rows: list[Sequence[str]] = []
    for summary in summaries:
        for place, column in enumerate(summary.columns):
            rows += _rows_of_column(data, summary, place, column)

    notes = [
        "Intervals are over the items of the test set, not over trainings: a study with several seeds shows how "
        "much those differ. † p < 0.05, ‡ p < 0.01 for the change, not corrected for the number of scores."
    ]
    skipped = dict.fromkeys(chain.from_iterable(score.skipped for score in data.scores))
    if skipped:
        notes.append(f"Left out, as their data is missing: {', '.join(skipped)}.")
    several = len({encoder for _, _, _, encoder, *_ in rows}) > 1
    headers = ("task", "metric", "evaluator", Header("encoder", shown=several))
    columns = ["before", "after", "95 % interval", "change", "95 % interval"]
    table = table_of("", headers, columns, rows)
    return Section("Scores", tables=[table], notes=notes, is_open=True)


def _rows_of_column(
    data: RunReport,
    summary: Summary,
    place: int,
    column: Column,
) -> Iterator[Sequence[str]]:
    """Yield a row per encoder: task, metric, evaluator, encoder, and the numbers before and after training."""
    estimates = {row.encoder: row.cells[place] for row in summary.rows}
    evaluator = ", ".join(filter(None, (*summary.names, summary.apart)))
    for encoder in dict.fromkeys(name.removesuffix(START) for name in estimates):
        before = estimates.get(encoder + START, Estimate()).value
        after = estimates.get(encoder, Estimate()).value
        if before is None and after is None:
            continue
        change = interval = interval_of_change = ""
        if before is not None and after is not None:
            change = signed(after - before, column.digits)
        known = _interval_of(data, summary, column, encoder)
        if known is not None:
            interval = interval_text(known.interval, column.digits)
        if known is not None and known.change is not None:
            interval_of_change = interval_text(known.change.interval, column.digits)
            change += sign_of(known.change.p_value)
        yield (
            column.heading,
            column.metric,
            evaluator,
            encoder,
            column.text(before),
            column.text(after),
            interval,
            change,
            interval_of_change,
        )


def _interval_of(
    data: RunReport,
    summary: Summary,
    column: Column,
    encoder: str,
) -> ScoreInterval | None:
    """Return the interval of an encoder's score in a column; None if it is unknown."""
    measurement = (encoder, summary.evaluator, column.task, column.metric)
    for interval in data.intervals:
        score = interval.score
        if (score.encoder, score.evaluator, score.task, score.metric) != measurement:
            continue
        if evaluation_protocol(score) == column.protocol:
            return interval
    return None
