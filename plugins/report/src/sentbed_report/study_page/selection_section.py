"""Section on the cell that a study with `[study.decide]` has chosen."""

from __future__ import annotations

from collections.abc import Iterator

from sentbed.helpers import score_digits

from sentbed_report.formatting import count
from sentbed_report.page.sections import Section, table_of
from sentbed_report.study.selection import Selection
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Header, Table


def selection_section(selection: Selection | None) -> Section | None:
    """Return the section; None in a study without `[study.decide]`."""
    if selection is None:
        return None

    tables = []
    if selection.scores:
        tables.append(_table(selection))
    return Section(
        title="Chosen cell",
        summary=selection.cell or "none was chosen",
        sentences=[*_sentences(selection)],
        tables=tables,
        notes=[*_notes(selection)],
    )


def _sentences(selection: Selection) -> Iterator[str]:
    yield selection.sentence
    if not selection.cell:
        return

    if selection.test_data:
        yield (
            "It was chosen on test data (`test_data = true`): its score on the data by which it was chosen "
            f"is the best of {selection.compared:,}, and so too good. The score says nothing certain about "
            "other data."
        )
    else:
        yield (
            f"That score is the best of {selection.compared:,}, and so too good: report the scores on test "
            "data below, with the number of cells."
        )

    if selection.fresh_seeds:
        seeds = ", ".join(map(str, selection.fresh_seeds))
        yield (
            f"The scores below are of {count(len(selection.fresh_seeds), 'fresh seed')} ({seeds}), whose "
            "weights had no part in the choice."
        )
    elif selection.scores:
        yield (
            "The seeds below are those of the choice: a lucky seed has better scores on all data alike. The "
            "means are therefore too good by an unknown amount, and the level of the intervals, 5 %, is "
            f"divided by {count(selection.among, 'cell')}; `confirm = 3` runs fresh seeds instead."
        )


def _table(selection: Selection) -> Table:
    several = len({score.encoder for score in selection.scores}) > 1
    digits = score_digits(score.mean for score in selection.scores)
    columns: list[Column | str] = [Column("score", digits=digits), "interval over"]
    if selection.test_data:
        columns.append("chosen by")

    rows = []
    for score in selection.scores:
        interval = None
        if score.low is not None and score.high is not None:
            interval = (score.low, score.high)
        estimate = Estimate(
            value=score.mean,
            std=score.std,
            interval=interval,
        )
        decided = "yes" if score.decided else "no"
        rows.append(
            (
                score.task,
                score.encoder,
                score.evaluator,
                score.metric,
                estimate,
                score.over or None,
                decided,
            )
        )
    return table_of(
        f"Scores of “{selection.cell}” on test data, with intervals of {100 * selection.confidence:.4g} %",
        ["task", Header("encoder", shown=several), "evaluator", "metric"],
        columns,
        rows,
        [
            "Mean and standard deviation over the seeds. The intervals are those of this cell's scores: they "
            "do not compare it with another cell."
        ],
    )


def _notes(selection: Selection) -> Iterator[str]:
    if selection.cell and not selection.scores:
        yield "The cell has no score on test data to report: add an evaluator of test data."
    if selection.ties:
        yield (
            f"As good by the same score: {'; '.join(selection.ties)}. The first cell in the recipe's order was "
            "chosen."
        )
    if selection.left and selection.cell:
        cells = []
        for name, reason in selection.left:
            cells.append(f"{name} ({reason})")
        yield f"Could not be chosen: {'; '.join(cells)}."
    if selection.cell and not selection.complete:
        tried = ""
        if selection.compared < selection.among:
            tried = f", of {selection.among:,} that were tried"
        yield (
            f"The study has not finished; so far {count(selection.compared, 'cell')} can be compared{tried}."
        )
