"""The lines at the top of a study's page: the best cell, the cells that are not worse, and warnings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import attrs

from sentbed_report.formatting import count, first_names, interval_text, number
from sentbed_report.page.report_page import AnswerLine
from sentbed_report.study.axes_without_effect import axes_without_effect
from sentbed_report.study.deciding_score import Decide
from sentbed_report.study.rank_groups import GroupedRow
from sentbed_report.study.selection import ChosenScore, Selection, select
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary
from sentbed_report.study_page.runs_section import status_counts, warnings_of_runs

FEW_SEEDS = 3
"""Smallest number of seeds from which the spread over seeds can be estimated usefully."""

NOT_WORSE = "Not significantly worse than the best"

RESULTS, RUNS = "#results", "#runs"
"""Addresses of sections to which warnings lead."""


def answer_lines(
    data: StudyData,
    summaries: Sequence[Summary],
    selection: Selection | None,
) -> list[AnswerLine]:
    """Return the lines of the answer; while runs are open, they claim nothing about the best cell."""
    main = main_table(summaries)
    chosen = selection
    if chosen is None and main is not None:
        chosen = _best_of_table(data, summaries, main)

    lines = []
    if chosen is not None and not open_runs(data):
        lines.append(AnswerLine("Best", _best(data, chosen, main)))
        not_worse = _not_worse(main, chosen.cell)
        if not_worse:
            lines.append(AnswerLine(NOT_WORSE, not_worse))

    title = "Warnings"
    for text, address in _warnings(data, summaries, chosen, main):
        lines.append(AnswerLine(title, text, address))
        title = ""
    return lines


def main_table(summaries: Sequence[Summary]) -> Summary | None:
    """Return the table from which conclusions are drawn: the first on test data that ranks its cells.

    Without such a table, it is the first on development data that ranks its cells, and None without either.
    Tables without scores, and tables of further metrics, are left out.
    """
    on_development_data = None
    for summary in summaries:
        has_scores = any(row.scored for row in summary.rows)
        if not has_scores or not summary.columns[-1].ranked or summary.metric:
            continue
        if not summary.development:
            return summary
        on_development_data = on_development_data or summary
    return on_development_data


def open_runs(data: StudyData) -> int:
    """Return the number of runs, those with fresh seeds too, that have neither finished nor failed."""
    counts = status_counts(data)
    return counts["running"] + counts["waiting"] + counts["interrupted"]


def score_name(main: Summary) -> str:
    """Return metric and task of a table's last column, such as `spearman on STSB`."""
    column = main.columns[-1]
    name = column.heading
    if column.unnamed_metric:
        name = f"{column.unnamed_metric} on {name}"
    if column.lower:
        name += " (lower is better)"
    return name


def _best_of_table(
    data: StudyData, summaries: Sequence[Summary], main: Summary
) -> Selection | None:
    """Return the choice by the tasks of the main table; None if none of its cells could be chosen."""
    tasks = []
    for column in main.columns:
        if column.ranked and not column.average:
            tasks.append(column.task)
    decide = Decide(tuple(tasks), main.evaluator, test_data=not main.development)
    chosen = select(attrs.evolve(data, decide=decide), summaries)
    if chosen is None or not chosen.cell:
        return None
    return chosen


def _best(
    data: StudyData,
    chosen: Selection,
    main: Summary | None,
) -> str:
    """Return the chosen cell with its score and interval in the main table, and how it was chosen."""
    if not chosen.cell:
        return f"none: {chosen.reason}"

    text = chosen.cell
    score = _score_of(chosen, main)
    if score is not None and main is not None:
        text += f": {number(score.mean, main.digits)} {score_name(main)}"
        if score.low is not None and score.high is not None:
            text += f" [{interval_text((score.low, score.high), main.digits)}]"

    if len(data.cells) == 1:
        return text
    if chosen.test_data:
        text += f", chosen on the test set, so biased upwards, as the best of {chosen.compared:,}"
    else:
        text += f", the best of {chosen.compared:,} on development data"
    if chosen.fresh_seeds:
        text += f"; the score is of {count(len(chosen.fresh_seeds), 'fresh seed')}"
    if chosen.ties:
        text += f"; the same score: {first_names(chosen.ties)}"
    return text


def _score_of(chosen: Selection, main: Summary | None) -> ChosenScore | None:
    """Return the chosen cell's score in the last column of the main table; None if it has none there."""
    if main is None:
        return None
    column = main.columns[-1]
    key = (main.evaluator, main.protocol, column.task, column.metric)
    for score in chosen.scores:
        if (score.evaluator, score.protocol, score.task, score.metric) == key:
            return score
    return None


def _compared_rows(
    main: Summary | None, cell: str
) -> tuple[GroupedRow | None, list[GroupedRow]]:
    """Return the row of a cell among the compared rows of a table, the best first, and the other rows."""
    row = None
    others = []
    if main is not None and main.groups is not None:
        for compared in main.groups.rows:
            if row is None and compared.cell == cell:
                row = compared
            else:
                others.append(compared)
    return row, others


def _not_worse(main: Summary | None, cell: str) -> str:
    """Return the cells that are not significantly worse than the best in the main table; empty if unknown."""
    row, others = _compared_rows(main, cell)
    if row is None:
        return ""
    alike = [other.name for other in others if other.is_like(row)]
    if not alike:
        return "none"
    return f"{first_names(alike)} ({len(alike):,} of {len(others):,})"


def _warnings(
    data: StudyData,
    summaries: Sequence[Summary],
    chosen: Selection | None,
    main: Summary | None,
) -> Iterator[tuple[str, str]]:
    """Yield what a reader should know before relying on the answer, each with the section that has more."""
    statuses = status_counts(data)
    for status in ("failed", "interrupted", "running", "waiting"):
        if statuses[status]:
            runs = count(statuses.total(), "run")
            yield f"{statuses[status]:,} of {runs} {status}", RUNS
    if open_runs(data):
        yield "the best cell is named when all runs have ended", RUNS
    yield from _untrained(data)
    if main is not None:
        for text in _warnings_of_table(main, chosen):
            yield text, RESULTS
    for text in axes_without_effect(data):
        yield text, RESULTS
    yield from _degenerate(summaries)

    warned = sum(1 for _, warnings in warnings_of_runs(data) if warnings)
    if warned:
        yield f"{count(warned, 'run')} with warnings", RUNS


def _warnings_of_table(main: Summary, chosen: Selection | None) -> Iterator[str]:
    """Yield warnings on the main table: few seeds, development data, comparisons that are missing."""
    few = {}
    for row in main.rows:
        if 0 < len(row.scored) < FEW_SEEDS:
            few[row.name] = len(row.scored)
    if few:
        seeds = count(max(few.values()), "seed")
        yield f"{seeds} only ({first_names(list(few))}): how much seeds differ is hardly known"
    if main.development:
        yield "the cells are ranked on development data only"
    if main.groups is not None and main.groups.reason:
        yield f"no differences are tested: {main.groups.reason}"
    if chosen is None:
        return

    chosen_row, others = _compared_rows(main, chosen.cell)
    better = []
    for other in others:
        if chosen_row is not None and other.name in chosen_row.beaten_by:
            better.append(other.name)
    if better:
        yield f"{chosen.cell} is not the best on the test set: {first_names(better)} better"


def _untrained(data: StudyData) -> Iterator[tuple[str, str]]:
    """Yield a warning if there are finished runs in which every stage kept its initial weights."""
    trained = 0
    untrained = 0
    for run in data.finished_runs:
        stages = run.record.get("stages", ())
        if stages and all(stage.get("best_step") == 0 for stage in stages):
            untrained += 1
        elif stages:
            trained += 1
    if untrained:
        runs = count(trained + untrained, "run")
        text = (
            f"training did not help in {untrained:,} of {runs}: no validation beat the initial score, so the "
            "initial weights were kept"
        )
        yield text, RUNS


def _degenerate(summaries: Sequence[Summary]) -> Iterator[tuple[str, str]]:
    """Yield each reason why scores are degenerate, with the names of the rows."""
    rows_of_reasons: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for summary in summaries:
        for row in summary.rows:
            for cell in row.cells:
                if cell.degenerate:
                    rows_of_reasons[cell.degenerate][row.name] = None
    for reason, rows in rows_of_reasons.items():
        yield f"degenerate scores of {first_names(list(rows))}: {reason}", RESULTS
