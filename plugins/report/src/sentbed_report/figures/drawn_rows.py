"""Rows of a study's table by what a figure of its last column can show of them."""

from __future__ import annotations

import math

import attrs

from sentbed_report.figures.cell_styles import listed
from sentbed_report.figures.labels import task_and_metric
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_row import SummaryRow
from sentbed_report.study.summary_tables import Summary


@attrs.frozen
class DrawnRow:
    """A row whose number has a place in a figure."""

    row: SummaryRow
    mean: float
    """Its number in the last column: the mean over its seeds."""


@attrs.frozen
class DrawnRows:
    """Rows of a table: each is in one of three parts."""

    sound: tuple[DrawnRow, ...]
    """Rows that have finished, with a number that says something about their encoder."""
    degenerate: tuple[DrawnRow, ...]
    """Rows that have finished, with one that says nothing: figures have a hollow point of it."""
    undrawn: tuple[tuple[str, str], ...]
    """Names of rows that have no place, with the reason."""

    @property
    def caption(self) -> str:
        """Sentences on the rows that are not sound; empty if all are."""
        sentences = []
        if self.degenerate:
            sentences.append(f"Hollow, degenerate: {listed([drawn.row.name for drawn in self.degenerate])}.")
        if self.undrawn:
            sentences.append(f"Not drawn: {listed([f'{name} ({reason})' for name, reason in self.undrawn])}.")
        return " ".join(sentences)


def drawn_rows(data: StudyData, summary: Summary) -> DrawnRows:
    """Return the rows of a table by what a figure of its last column can show of them.

    Cells without a row have no score.
    """
    cells = {row.cell for row in summary.rows}
    undrawn = [(cell.name, "no score") for cell in data.cells if cell.name not in cells]
    sound, degenerate = [], []
    for row in summary.rows:
        measured = row.cells[-1]
        if row.status != "finished":
            undrawn.append((row.name, row.remark))
        elif measured.value is None:
            undrawn.append((row.name, "no score"))
        elif not math.isfinite(measured.value):
            undrawn.append((row.name, "degenerate, not finite" if measured.degenerate else "not finite"))
        elif measured.degenerate:
            degenerate.append(DrawnRow(row, measured.value))
        else:
            sound.append(DrawnRow(row, measured.value))
    return DrawnRows(tuple(sound), tuple(degenerate), tuple(undrawn))


def score_label(summary: Summary) -> str:
    """Return task and metric of a table's last column as the label of an axis, such as `STSB (spearman)`."""
    heading, metric = summary.headings[-1], summary.columns[-1].metric
    # An average over several metrics has none, and a table of several has them in its headings.
    if metric == "mean" or heading.endswith(f"({metric})"):
        return heading
    return task_and_metric(heading, metric)
