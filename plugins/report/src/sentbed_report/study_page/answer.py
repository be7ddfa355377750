"""The answer of a study, at most five lines at the top of its report: best cell, effects, problems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from sentbed_report.figures.training_curves import stages
from sentbed_report.formatting import count, first_names, interval_text, number
from sentbed_report.page.report_page import AnswerLine
from sentbed_report.study.axes_without_effect import axes_without_effect
from sentbed_report.study.axis_tests import AxisFindings
from sentbed_report.study.deciding_score import Decide
from sentbed_report.study.rank_groups import GroupedRow, RankGroups
from sentbed_report.study.selection import ChosenScore, Selection, select
from sentbed_report.study.study_data import CellRun, StudyData
from sentbed_report.study.summary_tables import Summary, title_of
from sentbed_report.study_page.effects_section import effects_line
from sentbed_report.study_page.runs_section import status_counts
from sentbed_report.study_page.warnings_section import warnings_of_runs

UNTRAINED = "the weights scored are those from before training"
NO_BETTER = "no validation was above that of step 0"

FEW_SEEDS = 3
"""Smallest number of seeds from which the spread over seeds can be estimated usefully."""


def answer_lines(
    data: StudyData,
    summaries: Sequence[Summary],
    selection: Selection | None,
    findings: Sequence[AxisFindings],
) -> list[AnswerLine]:
    """Return the lines of the answer: untrained weights, best cell, cells as good, effects, problems.

    Lines without content are left out.
    """
    main = main_table(summaries)
    chosen = selection
    if chosen is None and main is not None:
        chosen = _chosen_by_main_table(data, summaries, main)
    chosen_cell = "" if chosen is None else chosen.cell
    lines = []

    untrained = _untrained(data)
    if untrained:
        lines.append(AnswerLine("Untrained", untrained))
    best = _best(data, chosen, selection, main)
    if best:
        lines.append(AnswerLine("Best", best))
    if main is not None and main.groups is not None and len(data.cells) > 1:
        alike = _not_told_apart(main, main.groups, chosen_cell)
        lines.append(AnswerLine("Not told apart from the best", alike))

    for findings_of_table in findings:
        effects = effects_line(findings_of_table)
        if findings_of_table.summary is main and effects:
            lines.append(AnswerLine("Effects", effects))

    problems = "; ".join(_problems(data, summaries, selection, main))
    if problems:
        lines.append(AnswerLine("Mind", problems))

    return lines


def _untrained(data: StudyData) -> str:
    """Return in how many finished runs every stage kept the weights of step 0; empty if in none."""
    untrained: dict[CellRun, bool] = {}
    for run, stage in stages(data):
        if run.status == "finished":
            kept_first_step = stage.best_step == 0
            untrained[run] = kept_first_step and untrained.get(run, True)

    number_untrained = list(untrained.values()).count(True)
    if not number_untrained:
        return ""
    runs = count(len(untrained), "trained run")
    return f"{UNTRAINED} in {number_untrained:,} of {runs}: {NO_BETTER}"


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


def _chosen_by_main_table(
    data: StudyData,
    summaries: Sequence[Summary],
    main: Summary,
) -> Selection | None:
    """Choose a cell by the tasks of the main table, in a study without `[study.decide]`."""
    tasks = []
    for column in main.columns:
        if column.ranked and not column.average:
            tasks.append(column.task)
    decide = Decide(tuple(tasks), main.evaluator, test_data=not main.development)
    return select(attrs.evolve(data, decide=decide), summaries)


def _best(
    data: StudyData,
    chosen: Selection | None,
    selection: Selection | None,
    main: Summary | None,
) -> str:
    """Return the chosen cell, and how it was chosen; empty if the study has no best cell.

    `selection` is the choice by `[study.decide]`; without that table, it is None.
    """
    if chosen is None or (selection is None and not chosen.cell):
        return ""

    if not chosen.cell:
        return f"none could be chosen: {chosen.reason}"
    if len(data.cells) == 1:
        return _with_score(chosen, main, "the only cell")

    how = "on development data"
    if chosen.test_data:
        how = "on this very test data, so that its score is too good"
    elif selection is None:
        how = "on development data; no table of test data ranks the cells"
    return _with_score(chosen, main, f"chosen among {chosen.number_compared} {how}")


def _with_score(
    chosen: Selection,
    main: Summary | None,
    how: str,
) -> str:
    """Return the chosen cell with its score and interval in the main table, and how it was chosen."""
    score = _score_of(chosen, main)
    text = chosen.cell
    if score is not None and main is not None:
        text += f": {_score_name(main)} {number(score.mean, main.digits)}"
        if score.low is not None and score.high is not None:
            widened = ""
            if chosen.among > 1 and not chosen.fresh_seeds:
                widened = ", widened for the choice"
            interval = interval_text((score.low, score.high), main.digits)
            text += f" ({interval}{widened})"
        noun = "fresh seed" if chosen.fresh_seeds else "seed"
        seeds = count(score.seeds, noun)
        if chosen.prompts:
            seeds = f"{count(chosen.prompts, 'prompt')} and {seeds}"
        text += f" over {seeds}"

    text += f"; {how}"
    if chosen.ties:
        text += f"; as good: {first_names(chosen.ties)}"
    return text


def _score_name(main: Summary) -> str:
    """Return the heading of a table's last column, with its metric, and with a remark if lower is better."""
    column = main.columns[-1]
    details = []
    if column.metric not in ("", "mean") and f"({column.metric})" not in column.heading:
        details.append(column.metric)
    if column.lower:
        details.append("lower is better")
    if not details:
        return column.heading
    return f"{column.heading} ({', '.join(details)})"


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


def _not_told_apart(
    main: Summary,
    groups: RankGroups,
    chosen_cell: str,
) -> str:
    """Return which rows the tests cannot tell apart from the chosen cell's row.

    If the tests show rows to be better than it, return these, too.
    """
    title = title_of(main)
    if not groups.rows:
        return f"unknown in {title}: {groups.reason}"

    chosen_row = _chosen_row(groups, chosen_cell)
    if chosen_row is None:
        return (
            f"unknown in {title}: {chosen_cell} is not compared there (see Rank groups)"
        )
    others = _other_rows(groups, chosen_row)
    alike = [row.name for row in others if row.is_like(chosen_row)]
    better = _better_rows(groups, chosen_row)
    if better:
        names = first_names(alike) if alike else "none"
        return (
            f"{names}; better than {chosen_row.name} in {title}: {first_names(better)}"
        )

    remarks = ""
    if groups.left:
        remarks += f"; not compared: {first_names(groups.names_left)}"
    if not alike:
        compared = "other"
        if len(others) > 1:
            compared = f"{len(others):,} others"
        return (
            f"none: {chosen_row.name} is better than the {compared} in {title}{remarks}"
        )
    return f"{first_names(alike)} ({len(alike)} of {count(len(others), 'other')}; {title}){remarks}"


def _other_rows(groups: RankGroups, chosen_row: GroupedRow) -> list[GroupedRow]:
    """Return all rows but the chosen cell's."""
    others = list(groups.rows)
    others.remove(chosen_row)
    return others


def _chosen_row(groups: RankGroups, chosen_cell: str) -> GroupedRow | None:
    """Return the row of the chosen cell; None if it is not compared with the others.

    If no cell was chosen, return the first row, which has the best mean.
    """
    if not chosen_cell:
        return groups.rows[0]
    for row in groups.rows:
        if row.cell == chosen_cell:
            return row
    return None


def _better_rows(groups: RankGroups, chosen_row: GroupedRow) -> list[str]:
    """Return the names of the rows that the tests show to be better than the chosen cell's row."""
    better = []
    for row in groups.rows[: groups.rows.index(chosen_row)]:
        if not row.is_like(chosen_row):
            better.append(row.name)
    return better


def _problems(
    data: StudyData,
    summaries: Sequence[Summary],
    selection: Selection | None,
    main: Summary | None,
) -> Iterator[str]:
    """Yield what a reader should know before relying on the answer."""
    statuses = status_counts(data)
    for status in ("failed", "interrupted", "running", "waiting"):
        if statuses[status]:
            yield f"{statuses[status]:,} of {count(data.total, 'run')} {status}"

    if main is not None:
        yield from _few_seeds(main)
        if main.development:
            yield "the cells are ranked on development data only"
        elif selection is not None:
            yield from _better_than_chosen(main, selection)
    yield from axes_without_effect(data)
    if any(summary.apart for summary in summaries):
        yield "protocols differ: see the titles of the tables"

    degenerate = _degenerate_rows(summaries)
    if degenerate:
        reason = ""
        if len(set(degenerate.values())) == 1:
            reason = f" ({next(iter(degenerate.values()))})"
        yield f"degenerate scores of {first_names(list(degenerate))}{reason}"

    warned = [run for run, warnings in warnings_of_runs(data) if warnings]
    if warned:
        yield f"{count(len(warned), 'run')} with warnings"
    if selection is not None and not selection.complete:
        yield "the choice is among the cells that have finished"


def _better_than_chosen(main: Summary, selection: Selection) -> Iterator[str]:
    """Yield a warning if the tests show that cells are better on test data than the chosen one."""
    if main.groups is None or not main.groups.rows:
        return
    chosen_row = _chosen_row(main.groups, selection.cell)
    if chosen_row is not None and _better_rows(main.groups, chosen_row):
        yield f"{chosen_row.name} is not the best on test data"


def _degenerate_rows(summaries: Sequence[Summary]) -> dict[str, str]:
    """Return the names of the rows with degenerate scores, each with the reason of its first such score."""
    reasons: dict[str, str] = {}
    for summary in summaries:
        for row in summary.rows:
            for cell in row.cells:
                if cell.degenerate:
                    reasons.setdefault(row.name, cell.degenerate)
    return reasons


def _few_seeds(main: Summary) -> Iterator[str]:
    """Yield a sentence on the rows that have too few seeds."""
    names = []
    counts = []
    has_other_rows = False
    for row in main.rows:
        seeds_of_row = len(row.scored)
        if seeds_of_row == 0:
            continue
        if seeds_of_row < FEW_SEEDS:
            names.append(row.name)
            counts.append(seeds_of_row)
        else:
            has_other_rows = True
    if not names:
        return

    seeds = count(max(counts), "seed")
    if min(counts) < max(counts):
        seeds = f"{min(counts)} or {seeds}"
    of_rows = ""
    if has_other_rows:
        of_rows = f" ({first_names(names)})"
    yield f"{seeds} only{of_rows}, too few to show how much seeds differ"
