"""What a study says, in at most six lines at the top of its report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from sentbed_report.formatting import count, first_names, interval_text, number
from sentbed_report.page.report_page import AnswerLine
from sentbed_report.study.axis_tests import AxisFindings
from sentbed_report.study.deciding_score import Decide
from sentbed_report.study.observed_power import judged_rows, observed_power
from sentbed_report.study.rank_groups import GroupedRow, RankGroups
from sentbed_report.study.selection import ChosenScore, Selection, select
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary, title_of
from sentbed_report.study_page.effects_section import effects_line
from sentbed_report.study_page.power_section import seeds_text
from sentbed_report.study_page.runs_section import status_counts
from sentbed_report.study_page.warnings_section import warnings_of_runs

FEW_SEEDS = 3
"""Seeds from which a spread over seeds says something."""


def answer_lines(
    data: StudyData,
    summaries: Sequence[Summary],
    selection: Selection | None,
    findings: Sequence[AxisFindings],
) -> list[AnswerLine]:
    """Return the lines that are known: best cell, which may be as good, axes, problems, what to do next."""
    main = main_table(summaries)
    chosen = "" if selection is None else selection.cell
    lines = []
    best = _best(data, summaries, selection, main)
    if best:
        lines.append(AnswerLine("Best", best))
    if main is not None and main.groups is not None and main.groups.rows:
        lines.append(AnswerLine("Not told apart from the best", _not_told_apart(main, main.groups, chosen)))
    effects = "".join(effects_line(of_table) for of_table in findings if of_table.summary is main)
    if effects:
        lines.append(AnswerLine("Effects", effects))
    problems = list(_problems(data, summaries, selection, main))
    if problems:
        lines.append(AnswerLine("Mind", "; ".join(problems)))
    step = _next_step(data, main, chosen)
    if step:
        lines.append(AnswerLine("Next", step))
    return lines


def main_table(summaries: Sequence[Summary]) -> Summary | None:
    """Return the table that conclusions are drawn from: the first on test data that ranks its cells."""
    ranked = [summary for summary in summaries if summary.columns[-1].ranked and not summary.metric]
    ranked = [summary for summary in ranked if any(row.scored for row in summary.rows)]
    of_test_data = [summary for summary in ranked if not summary.development]
    return next(iter(of_test_data or ranked), None)


def _best(
    data: StudyData, summaries: Sequence[Summary], selection: Selection | None, main: Summary | None
) -> str:
    chosen = selection
    if chosen is None and main is not None:
        tasks = tuple(column.task for column in main.columns if not column.average and column.ranked)
        decide = Decide(tasks, main.evaluator, test_data=not main.development)
        chosen = select(attrs.evolve(data, decide=decide), summaries)
    if chosen is None or (selection is None and not chosen.cell):
        return ""
    if not chosen.cell:
        return f"none could be chosen: {chosen.reason}"
    how = "on development data"
    if chosen.test_data:
        how = "on this very test data, so that its score is too good"
    elif selection is None:
        how = "on development data; no score is on test data"
    return _with_score(chosen, main, how)


def _with_score(selection: Selection, main: Summary | None, how: str) -> str:
    """Return the chosen cell, its score on test data with its interval, and among how many it was chosen."""
    score = _score_of(selection, main)
    text = selection.cell
    if score is not None and main is not None:
        text += f": {main.headings[-1]} {number(score.mean, main.digits)}"
        if score.low is not None and score.high is not None:
            widened = "" if selection.fresh_seeds else ", widened for the choice"
            text += f" ({interval_text((score.low, score.high), main.digits)}{widened})"
        seeds = count(score.seeds, "fresh seed" if selection.fresh_seeds else "seed")
        text += f" over {seeds}"
    ties = f"; as good: {first_names(selection.ties)}" if selection.ties else ""
    return f"{text}; chosen among {selection.number_compared} {how}{ties}"


def _score_of(selection: Selection, main: Summary | None) -> ChosenScore | None:
    """Return the chosen cell's score in the last column of the main table."""
    if main is None:
        return None
    column = main.columns[-1]
    key = (main.evaluator, main.protocol, column.task, column.metric)
    for score in selection.scores:
        if (score.evaluator, score.protocol, score.task, score.metric) == key:
            return score
    return None


def _not_told_apart(main: Summary, groups: RankGroups, chosen: str) -> str:
    title = title_of(main)
    if not groups.lettered:
        return f"unknown in {title}: {groups.reason}"
    best = _best_row(groups, chosen)
    others = [row for row in groups.rows if row is not best]
    alike = [row.name for row in others if row.is_like(best)]
    better = _better_rows(groups, best)
    if better:
        names = first_names(alike) if alike else "none"
        return f"{names}; better than {best.name} in {title}: {first_names(better)}"
    if not alike:
        return f"none: {best.name} is better than the {count(len(others), 'other')} in {title}"
    return f"{first_names(alike)} ({len(alike)} of {count(len(others), 'other')}; {title})"


def _best_row(groups: RankGroups, chosen: str) -> GroupedRow:
    """Return the row of the chosen cell, or without one the best on the data of the table."""
    for row in groups.rows:
        if row.cell == chosen:
            return row
    return groups.rows[0]


def _better_rows(groups: RankGroups, best: GroupedRow) -> list[str]:
    """Return the rows that were shown to be better than the chosen one, on data that did not choose it."""
    above = groups.rows[: groups.rows.index(best)]
    return [row.name for row in above if not row.is_like(best)]


def _problems(
    data: StudyData, summaries: Sequence[Summary], selection: Selection | None, main: Summary | None
) -> Iterator[str]:
    statuses = status_counts(data)
    for status in ("failed", "interrupted", "running", "waiting"):
        if statuses[status]:
            yield f"{statuses[status]:,} of {count(data.total, 'run')} {status}"
    if main is not None:
        fewest = min((len(row.scored) for row in main.rows if row.scored), default=0)
        if 0 < fewest < FEW_SEEDS:
            yield f"{count(fewest, 'seed')} only, which hardly shows how much seeds differ"
        if main.development:
            yield "all scores are on development data"
        if main.protocol_notes:
            yield "protocols differ: see the notes below the table"
    degenerate = {
        row.name: cell.degenerate
        for summary in summaries
        for row in summary.rows
        for cell in row.cells
        if cell.degenerate
    }
    if degenerate:
        yield f"degenerate scores of {first_names(list(degenerate))}"
    warned = sum(bool(warnings) for _, warnings in warnings_of_runs(data))
    if warned:
        yield f"{count(warned, 'run')} warned of something"
    if selection is not None and not selection.complete:
        yield "the choice is of what has finished"


def _next_step(data: StudyData, main: Summary | None, chosen: str) -> str:
    """Return what would make the answer surer."""
    statuses = status_counts(data)
    if statuses["failed"]:
        return "mend what failed, and run `sentbed study` again: finished runs are kept"
    if data.finished < data.total:
        return "let the study finish: `sentbed study` goes on where it was"
    if main is None or main.development:
        return "add an evaluator on test data"
    if len(main.seeds) < 2:
        return "run more seeds: with one, other seeds may turn every difference round"
    groups = main.groups
    if groups is None or not groups.rows or not groups.lettered:
        return ""
    best = _best_row(groups, chosen)
    if _better_rows(groups, best):
        return "use more development data: on test data, which may not choose, the chosen cell is not best"
    if not any(row.is_like(best) for row in groups.rows if row is not best):
        return "nothing: the best cell stands out; confirm it on data that the study has not seen"
    for power in observed_power([main]):
        for row, judged in judged_rows(main):
            if row.cell == best.cell and not judged.significant:
                seeds = seeds_text(power, judged)
                return f"seeds that would tell the best cell from {data.baseline}: {seeds} (see Power)"
    return "more seeds tell more cells apart (see Power for how many)"
