"""The cell that a study with `[study.decide]` chooses, as a section of its report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sentbed.helpers import score_digits

from sentbed_report.formatting import count, number, spread
from sentbed_report.study.selection import ChosenScore, Selection, select
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary
from sentbed_report.study_page.sections import Section, SectionRow, SectionTable


def selection_section(data: StudyData, summaries: Sequence[Summary]) -> Section | None:
    """Return the section; None if the study does not say what decides."""
    found = select(data, summaries)
    if found is None:
        return None
    return Section("Chosen cell", tuple(_sentences(found)), tuple(_tables(found)), tuple(_remarks(found)))


def _sentences(found: Selection) -> Iterator[str]:
    yield found.sentence
    if not found.cell:
        return
    if found.test_data:
        yield (
            f"It was chosen on test data (`test_data = true`): its score on the data by which it was chosen "
            f"is the best of {found.compared:,}, and so too good. It says nothing certain about data that "
            "the choice has not seen."
        )
    else:
        yield (
            f"That score is the best of {found.compared:,}, and so too good: report the scores on test data "
            "below, with the number of cells."
        )
    if found.fresh_seeds:
        seeds = ", ".join(map(str, found.fresh_seeds))
        yield (
            f"The scores below are of {count(len(found.fresh_seeds), 'fresh seed')} ({seeds}), whose weights "
            "had no part in the choice."
        )
    elif found.scores:
        yield (
            "The seeds below are those of the choice: one that was lucky lifts scores on all data alike. The "
            f"means are therefore too good by an unknown amount, and the level of the intervals, 5 %, is "
            f"divided by {count(found.among, 'cell')}; `confirm = 3` runs fresh seeds instead."
        )


def _tables(found: Selection) -> Iterator[SectionTable]:
    if not found.scores:
        return
    several = len({one.encoder for one in found.scores}) > 1
    digits = score_digits(one.mean for one in found.scores)
    interval = f"{100 * found.confidence:.4g} % interval"
    headings = ["task", "evaluator", "metric", "mean", "std", interval, "over"]
    rows = tuple(
        SectionRow(
            f"{one.task}, {one.encoder}" if several else one.task, _entries(one, digits, found.test_data)
        )
        for one in found.scores
    )
    yield SectionTable(
        f"Scores of “{found.cell}” on test data",
        (*headings, *(["chosen by"] if found.test_data else [])),
        rows,
        (3, 4, 5),
    )


def _entries(one: ChosenScore, digits: int, test_data: bool) -> tuple[str, ...]:
    interval = None if one.low is None or one.high is None else (one.low, one.high)
    return (
        one.evaluator,
        one.metric,
        number(one.mean, digits),
        number(one.std, digits),
        spread(interval, digits) or "–",
        one.over or "–",
        *((["yes"] if one.decided else ["no"]) if test_data else []),
    )


def _remarks(found: Selection) -> Iterator[str]:
    if found.cell and not found.scores:
        yield "None of its scores is on test data: add an evaluator of test data to report it."
    if found.scores:
        yield (
            "Mean and standard deviation over the seeds. Intervals are of this cell alone: they do not "
            "compare it with another."
        )
    if found.ties:
        yield (
            f"As good by the same score: {'; '.join(found.ties)}. The first in the recipe's order was chosen."
        )
    if found.left and found.cell:
        listed = "; ".join(f"{name} ({why})" for name, why in found.left)
        yield f"Could not be chosen: {listed}."
    if found.cell and not found.complete:
        tried = f", of {found.among:,} that were tried" if found.compared < found.among else ""
        yield f"The study has not finished; so far {count(found.compared, 'cell')} can be compared{tried}."
