"""Rows of a table that a figure of the table's last column can draw, and why it cannot draw the others."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs

from sentbed_report.figures.labels import task_and_metric
from sentbed_report.formatting import first_names
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary

if TYPE_CHECKING:
    import pandas


@attrs.frozen(eq=False)
class DrawnRows:
    """Rows of a table that a figure can draw, and the rows that it cannot."""

    rows: pandas.DataFrame
    """Rows that can be drawn. Their columns are `name`, `cell`, `row` (the `SummaryRow`), `value`, `std`
    (standard deviation over the seeds, 0 if unknown), and `degenerate` (whether the value says nothing about
    the encoder, so that it is drawn hollow)."""

    undrawn: tuple[tuple[str, str], ...]
    """Name of each row that cannot be drawn, with the reason."""

    @property
    def sound(self) -> pandas.DataFrame:
        """Rows that are not degenerate."""
        return self.rows[~self.rows["degenerate"]]

    @property
    def degenerate(self) -> pandas.DataFrame:
        """Rows that are degenerate."""
        return self.rows[self.rows["degenerate"]]

    @property
    def caption(self) -> str:
        """Sentences on degenerate rows and on rows that are not drawn; empty if there are none."""
        sentences = []
        if len(self.degenerate):
            sentences.append(
                f"Hollow, degenerate: {first_names([*self.degenerate['name']])}."
            )
        if self.undrawn:
            reasons = [f"{name} ({reason})" for name, reason in self.undrawn]
            sentences.append(f"Not drawn: {first_names(reasons)}.")
        return " ".join(sentences)


def drawn_rows(data: StudyData, summary: Summary) -> DrawnRows:
    """Return the rows of a table that a figure of the table's last column can draw, and those that it cannot.

    A cell of the study that has no row in the table counts as a row without a score.
    """
    import pandas

    cells = {row.cell for row in summary.rows}
    undrawn = []
    for cell in data.cells:
        if cell.name not in cells:
            undrawn.append((cell.name, "no score"))

    drawn = []
    for row in summary.rows:
        measured = row.cells[-1]
        degenerate = bool(measured.degenerate)
        if row.status != "finished":
            undrawn.append((row.name, row.remark))
        elif measured.value is None:
            undrawn.append((row.name, "no score"))
        elif not math.isfinite(measured.value):
            reason = "degenerate, not finite" if degenerate else "not finite"
            undrawn.append((row.name, reason))
        else:
            std = measured.std or 0.0
            drawn.append((row.name, row.cell, row, measured.value, std, degenerate))

    rows = pandas.DataFrame(
        drawn, columns=["name", "cell", "row", "value", "std", "degenerate"]
    )
    return DrawnRows(rows.astype({"degenerate": bool}), tuple(undrawn))


def score_label(summary: Summary) -> str:
    """Return the axis label of a table's last column: task and metric, such as `STSB (spearman)`."""
    heading, metric = summary.headings[-1], summary.columns[-1].metric
    # `mean` is the metric of an average over several metrics. A heading may contain the metric already.
    if metric == "mean" or heading.endswith(f"({metric})"):
        return heading
    return task_and_metric(heading, metric)
