"""The lines at the top of a study's page: the best cell, the cells that are not worse, and warnings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import attrs

from sentbed_report.figures.training_curves import stages
from sentbed_report.formatting import count, first_names, interval_text, number
from sentbed_report.page.report_page import AnswerLine
from sentbed_report.study.axes_without_effect import axes_without_effect
from sentbed_report.study.deciding_score import Decide
from sentbed_report.study.rank_groups import GroupedRow
from sentbed_report.study.selection import ChosenScore, Selection, select
from sentbed_report.study.study_data import CellRun, StudyData
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
    chosen = chosen_cell(data, summaries, selection)
    lines = []
    if not open_runs(data):
        if chosen is not None and (chosen.cell or selection is not None):
            lines.append(AnswerLine("Best", _best(data, chosen, main)))
        if main is not None and chosen is not None and len(data.cells) > 1:
            not_worse = _not_worse(main, chosen.cell)
            if not_worse:
                lines.append(AnswerLine(NOT_WORSE, not_worse))

    title = "Warnings"
    for text, address in _warnings(data, summaries, chosen, main):
        lines.append(AnswerLine(title, text, address))
        title = ""
    return lines


def main_table(summaries: Sequence[Summary]) -> Summary | None:
    """Return the main table, from which conclusions are drawn: the first on test data that ranks its cells.

    Without such a table, it is the first on development data that ranks its cells. It is None if there is no
    such table, either. Tables without scores, and tables of further metrics, are left out.
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
    """Return the number of runs that have neither finished nor failed."""
    counts = status_counts(data)
    return counts["running"] + counts["waiting"] + counts["interrupted"]


def chosen_cell(
    data: StudyData,
    summaries: Sequence[Summary],
    selection: Selection | None,
) -> Selection | None:
    """Return the choice by `[study.decide]`, or else by the tasks of the main table; None without scores."""
    main = main_table(summaries)
    if selection is not None or main is None:
        return selection
    tasks = []
    for column in main.columns:
        if column.ranked and not column.average:
            tasks.append(column.task)
    decide = Decide(tuple(tasks), main.evaluator, test_data=not main.development)
    return select(attrs.evolve(data, decide=decide), summaries)


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


def score_name(main: Summary) -> str:
    """Return metric and task of a table's last column, such as `spearman on STSB`."""
    column = main.columns[-1]
    name = column.heading
    if column.unnamed_metric:
        name = f"{column.unnamed_metric} on {name}"
    if column.lower:
        name += " (lower is better)"
    return name


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


def _not_worse(main: Summary, cell: str) -> str:
    """Return the cells that are not significantly worse than the best in the main table; empty if unknown."""
    row = _row_of(main, cell)
    if main.groups is None or row is None:
        return ""
    alike = []
    for other in main.groups.rows:
        if other is not row and other.is_like(row):
            alike.append(other.name)
    if not alike:
        return "none"
    number_of_others = len(main.groups.rows) - 1
    return f"{first_names(alike)} ({len(alike):,} of {number_of_others:,})"


def _row_of(main: Summary, cell: str) -> GroupedRow | None:
    """Return the row of a cell among the compared rows of a table; None if it is not compared."""
    if main.groups is not None:
        for row in main.groups.rows:
            if row.cell == cell:
                return row
    return None


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
            runs = count(data.total, "run")
            yield f"{statuses[status]:,} of {runs} {status}", RUNS
    if open_runs(data):
        yield "the best cell is named when all runs have ended", RUNS

    untrained = _untrained(data)
    if untrained:
        yield untrained, RUNS
    if main is not None:
        for text in _warnings_of_table(main, chosen):
            yield text, RESULTS
    for text in axes_without_effect(data):
        yield text, RESULTS
    for reason, names in _degenerate_rows(summaries).items():
        yield f"degenerate scores of {first_names(names)}: {reason}", RESULTS

    warned = sum(1 for _, warnings in warnings_of_runs(data) if warnings)
    if warned:
        yield f"{count(warned, 'run')} with warnings", RUNS


def _warnings_of_table(main: Summary, chosen: Selection | None) -> Iterator[str]:
    """Yield warnings on the main table: few seeds, development data, comparisons that are missing."""
    yield from _few_seeds(main)
    if main.development:
        yield "the cells are ranked on development data only"
    groups = main.groups
    if groups is None:
        return
    if groups.reason:
        yield f"no differences are tested: {groups.reason}"
    elif groups.left:
        yield f"not compared: {first_names(groups.names_left)}"
    if chosen is None:
        return
    row = _row_of(main, chosen.cell)
    if row is None:
        return

    better = []
    for other in groups.rows:
        if other is row:
            break
        if not other.is_like(row):
            better.append(other.name)
    if better:
        yield f"{row.name} is not the best on the test set: {first_names(better)} better"


def _untrained(data: StudyData) -> str:
    """Return in how many finished runs every stage kept its initial weights; empty if in none."""
    untrained: dict[CellRun, bool] = {}
    for run, stage in stages(data):
        if run.status == "finished":
            kept_first_step = stage.best_step == 0
            untrained[run] = kept_first_step and untrained.get(run, True)
    number_untrained = list(untrained.values()).count(True)
    if not number_untrained:
        return ""
    runs = count(len(untrained), "run")
    return (
        f"training did not help in {number_untrained:,} of {runs}: no validation beat the initial score, so the "
        "initial weights were kept"
    )


def _degenerate_rows(summaries: Sequence[Summary]) -> dict[str, list[str]]:
    """Return the reasons why scores are degenerate, each with the names of its rows."""
    names_of_reasons: defaultdict[str, list[str]] = defaultdict(list)
    for summary in summaries:
        for row in summary.rows:
            for cell in row.cells:
                if not cell.degenerate:
                    continue
                names = names_of_reasons[cell.degenerate]
                if row.name not in names:
                    names.append(row.name)
    return names_of_reasons


def _few_seeds(main: Summary) -> Iterator[str]:
    """Yield a sentence on the rows that have too few seeds."""
    names = []
    counts = []
    for row in main.rows:
        seeds = len(row.scored)
        if 0 < seeds < FEW_SEEDS:
            names.append(row.name)
            counts.append(seeds)
    if not names:
        return

    of_rows = ""
    if len(names) < len(main.rows):
        of_rows = f" ({first_names(names)})"
    yield f"{count(max(counts), 'seed')} only{of_rows}: how much seeds differ is hardly known"
