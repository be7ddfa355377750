"""Significance tests of the effects of a study's axes, on the scores in the last column of a table of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from sentbed_report.statistics.significance import Judged, corrected
from sentbed_report.study.main_effects import (
    AxisEffect,
    Context,
    cells_by_label,
    main_effects,
)
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_row import RowKey, SummaryRow
from sentbed_report.study.summary_tables import Summary


@attrs.frozen(eq=False)
class AxisFindings:
    """Effects of a study's axes on the last column of a table, with their tests."""

    summary: Summary
    effects: tuple[AxisEffect, ...]
    """Effect of each axis with several labels."""
    tests: Mapping[tuple[str, str], Judged]
    """(Axis, label) -> test of the label's difference from the reference label of the axis."""

    @property
    def compared(self) -> list[AxisEffect]:
        """Effects of the axes whose labels can be compared."""
        return [effect for effect in self.effects if effect.compared]


def axis_findings(data: StudyData, summaries: Sequence[Summary]) -> list[AxisFindings]:
    """Return the effects of the axes in each table.

    Two kinds of tables are left out: those without a finished cell, and those in whose last column neither
    higher nor lower scores are better.
    """
    findings = []
    for summary in summaries:
        has_finished = any(row.status == "finished" for row in summary.rows)
        if not has_finished or not summary.columns[-1].ranked:
            continue

        effects = main_effects(data, summary)
        if effects:
            tests = effect_tests(data, summary, effects)
            findings.append(AxisFindings(summary, effects, tests))
    return findings


def effect_tests(
    data: StudyData,
    summary: Summary,
    effects: Sequence[AxisEffect],
) -> dict[tuple[str, str], Judged]:
    """Return (axis, label) -> test of the label against the reference label of its axis.

    The tested difference is the mean over pairs of cells that differ only in this axis. Holm's correction is over
    the p-values of all labels of all axes.
    """
    scores = summary.scores
    if scores is None:
        return {}
    axes = {axis.name: axis for axis in data.axes}
    tests = {}
    for effect in effects:
        cells = cells_by_label(data, summary, axes[effect.axis])
        for label in effect.labels:
            weights = _weights(cells[label.label], cells[effect.reference])
            if weights:
                tests[effect.axis, label.label] = scores.contrast(weights)
    return corrected(tests)


def _weights(
    cells: Mapping[Context, SummaryRow], references: Mapping[Context, SummaryRow]
) -> dict[RowKey, float]:
    """Return the weight of each row in the mean difference over the contexts that both labels have."""
    contexts = [context for context in cells if context in references]
    weights: dict[RowKey, float] = {}
    for context in contexts:
        weights[cells[context].key] = 1 / len(contexts)
        weights[references[context].key] = -1 / len(contexts)
    return weights
