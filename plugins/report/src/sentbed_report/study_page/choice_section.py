"""Section on the choice by `[study.decide]`."""

from __future__ import annotations

from sentbed.helpers import score_digits

from sentbed_report.formatting import count, number
from sentbed_report.page.sections import Section, table_of
from sentbed_report.study.selection import Selection
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate


def choice_section(selection: Selection | None) -> Section | None:
    """Return the section with the scores of the chosen cell on test data; None without `[study.decide]`."""
    if selection is None:
        return None
    if selection.score is None:
        notes = [f"No cell was chosen: {selection.reason}."]
    else:
        best = number(selection.score, score_digits([selection.score]))
        tasks = ", ".join(selection.tasks)
        so_far = "" if selection.complete else " so far"
        cells = count(selection.compared, "cell")
        notes = [f"Decided by {tasks}: {best}, the best of {cells}{so_far}."]
    for name, reason in selection.left:
        notes.append(f"Could not be chosen: {name} ({reason}).")
    if selection.fresh_seeds:
        seeds = ", ".join(map(str, selection.fresh_seeds))
        notes.append(
            f"Scores are of the fresh seeds {seeds}, which had no part in the choice; intervals of 95 %."
        )
    else:
        notes.append(
            "The seeds are those of the choice, and a lucky seed has better scores on all data: the means are "
            f"biased upwards. Intervals are corrected for choosing among {selection.among:,} cells; "
            "`confirm = 3` runs fresh seeds instead."
        )

    rows = []
    for score in selection.scores:
        interval = None
        if score.low is not None and score.high is not None:
            interval = (score.low, score.high)
        estimate = Estimate(value=score.mean, std=score.std, interval=interval)
        rows.append(
            (score.task, score.encoder, score.evaluator, score.metric, estimate)
        )
    headers = ["task", "encoder", "evaluator", "metric"]
    digits = score_digits(score.mean for score in selection.scores)
    title = f"Scores of “{selection.cell}” on test data"
    table = table_of(title, headers, [Column("score", digits=digits)], rows)
    return Section("Choice", selection.cell, [table], notes)
