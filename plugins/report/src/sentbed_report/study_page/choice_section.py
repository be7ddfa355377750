"""Section on the choice by `[study.decide]`, the power of the tests, and prompts."""

from __future__ import annotations

from collections.abc import Sequence

from sentbed.helpers import score_digits

from sentbed_report.page.sections import Section, table_of
from sentbed_report.study.selection import Selection
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary
from sentbed_report.study_page.power_section import power_section
from sentbed_report.study_page.prompts_section import prompts_section
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Header, Table


def choice_section(
    data: StudyData,
    summaries: Sequence[Summary],
    selection: Selection | None,
) -> Section | None:
    """Return the section; None if there is neither a choice, nor a spread over seeds or prompts."""
    sentences: list[str] = []
    tables: list[Table] = []
    notes: list[str] = []
    titles = []
    if selection is not None:
        titles.append("choice")
        sentences.append(selection.sentence)
        for name, reason in selection.left:
            notes.append(f"Could not be chosen: {name} ({reason}).")
        if selection.scores:
            tables.append(_scores_table(selection))
            notes.append(_note_on_intervals(selection))

    for section in (prompts_section(data, summaries), power_section(data, summaries)):
        if section is not None:
            titles.append(section.title.lower())
            sentences += section.sentences
            tables += section.tables
            notes += section.notes
    if not titles:
        return None
    title = ", ".join(titles).capitalize()
    return Section(title, sentences=sentences, tables=tables, notes=notes)


def _scores_table(selection: Selection) -> Table:
    """Return the scores of the chosen cell on test data, with their intervals."""
    several = len({score.encoder for score in selection.scores}) > 1
    digits = score_digits(score.mean for score in selection.scores)
    rows = []
    for score in selection.scores:
        interval = None
        if score.low is not None and score.high is not None:
            interval = (score.low, score.high)
        estimate = Estimate(value=score.mean, std=score.std, interval=interval)
        rows.append(
            (score.task, score.encoder, score.evaluator, score.metric, estimate)
        )
    return table_of(
        f"Scores of “{selection.cell}” on test data",
        ["task", Header("encoder", shown=several), "evaluator", "metric"],
        [Column("score", digits=digits)],
        rows,
    )


def _note_on_intervals(selection: Selection) -> str:
    if selection.fresh_seeds:
        seeds = ", ".join(map(str, selection.fresh_seeds))
        return f"Scores are of the fresh seeds {seeds}, which had no part in the choice; intervals of 95 %."
    return (
        "The seeds are those of the choice, and a lucky seed has better scores on all data: the means are "
        f"biased upwards. Intervals are corrected for choosing among {selection.among:,} cells; `confirm = 3` "
        "runs fresh seeds instead."
    )
