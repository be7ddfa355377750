"""Section with the scores of a run. Its tables are made as those of a study whose only cell is the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from sentbed.protocols import START, ReportData

from sentbed_report.formatting import interval_text, sign_of, signed
from sentbed_report.page.sections import Section, table_of
from sentbed_report.statistics.difference import judge
from sentbed_report.statistics.score_interval import mean_interval
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Header


def run_summaries(data: ReportData) -> tuple[Summary, ...]:
    """Return the tables of a run with one row per encoder; an encoder before training has its own row."""
    run = CellRun(data.name, 0, "finished", scores=data.scores)
    cell = CellInfo(data.name, {}, (run,))
    study = StudyData(data.name, (), (cell,), None, (0,))
    return summarise(study, start=True)


def scores_section(data: ReportData, summaries: Sequence[Summary]) -> Section | None:
    """Return the section with the scores of a run, a row per task and metric; None if it has no tables."""
    if not summaries:
        return None
    rows: list[Sequence[str]] = []
    for summary in summaries:
        for place, column in enumerate(summary.columns):
            rows += _rows_of_column(summary, place, column)

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
    summary: Summary, place: int, column: Column
) -> Iterator[Sequence[str]]:
    """Yield a row per encoder: task, metric, evaluator, encoder, and the numbers before and after training."""
    estimates = {row.encoder: row.cells[place] for row in summary.rows}
    evaluator = ", ".join(filter(None, (*summary.names, summary.apart)))
    for encoder in dict.fromkeys(name.removesuffix(START) for name in estimates):
        before = estimates.get(encoder + START, Estimate())
        after = estimates.get(encoder, Estimate())
        if before.value is None and after.value is None:
            continue
        interval, change, interval_of_change = _comparison(before, after, column)
        yield (
            column.heading,
            column.metric,
            evaluator,
            encoder,
            column.text(before.value),
            column.text(after.value),
            interval,
            change,
            interval_of_change,
        )


def _comparison(
    before: Estimate,
    after: Estimate,
    column: Column,
) -> tuple[str, str, str]:
    """Return the interval of a score after training, its change, and the interval of the change, as texts."""
    interval = change = interval_of_change = ""
    if after.scores is not None and column.tested:
        known, _ = mean_interval(after.scores)
        interval = interval_text(known, column.digits)
    if before.value is not None and after.value is not None:
        change = signed(after.value - before.value, column.digits)
    if before.scores is not None and after.scores is not None and column.tested:
        judged = judge([(-1.0, before.scores), (1.0, after.scores)])
        interval_of_change = interval_text(judged.interval, column.digits)
        change += sign_of(judged.p_value)
    return interval, change, interval_of_change
