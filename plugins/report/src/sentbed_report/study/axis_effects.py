"""Effects of a study's axes on the scores in the last column of a table, with their tests.

An effect of a label is the mean difference from the axis's reference label over all pairs of cells that differ
only in this axis. Otherwise a label could have the higher mean although it is worse in every combination
(Simpson's paradox, 1951).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from sentbed_report.statistics.difference import Judged, corrected, judge
from sentbed_report.study.rank_groups import test_of_pair
from sentbed_report.study.study_data import AxisInfo, StudyData
from sentbed_report.study.summary_row import SummaryRow
from sentbed_report.study.summary_tables import Summary

Cells: TypeAlias = dict[str, dict[tuple[str, ...], SummaryRow]]
"""Label of the examined axis -> context (encoder, and labels on the other axes) -> row of this label there."""


@attrs.define
class LabelEffect:
    """Difference of one label of an axis from the reference label."""

    label: str
    judged: Judged
    """Test of the mean difference over the pairs of cells that differ only in this axis."""


@attrs.frozen
class AxisEffect:
    """Effect of one axis, label by label."""

    axis: str
    reference: str
    """Label of the baseline, by default the first label; if no pair of cells has that label, the first one that
    has a pair."""
    labels: tuple[LabelEffect, ...]
    """Labels that have a pair with the reference."""


def axis_effects(data: StudyData, summary: Summary) -> tuple[AxisEffect, ...]:
    """Return the effect of each axis with several labels, with Holm's correction over all tests of several pairs.

    There are none in a table without a finished cell, and in one in whose last column neither higher nor lower
    scores are better.
    """
    has_finished = any(row.status == "finished" for row in summary.rows)
    if not has_finished or not summary.columns[-1].ranked:
        return ()

    effects = []
    family = {}
    for axis in data.axes:
        if len(axis.labels) < 2:
            continue
        effect = _effect_of_axis(data, axis, summary)
        effects.append(effect)
        for label in effect.labels:
            if label.judged.corrected is None:
                family[axis.name, label.label] = label.judged

    family = corrected(family)
    for effect in effects:
        for label in effect.labels:
            label.judged = family.get((effect.axis, label.label), label.judged)
    return tuple(effects)


def _effect_of_axis(data: StudyData, axis: AxisInfo, summary: Summary) -> AxisEffect:
    """Return the effect of one axis, before any correction of tests of several pairs."""
    cells = _cells_by_label(data, summary, axis)
    reference = _reference(data, axis, cells)
    effects = []
    for label, of_label in cells.items():
        pairs = []
        for context, row in of_label.items():
            if label != reference and context in cells[reference]:
                pairs.append((cells[reference][context], row))
        if pairs:
            test = _test(summary, pairs)
            effects.append(LabelEffect(label, test))
    return AxisEffect(axis.name, reference, tuple(effects))


def _test(summary: Summary, pairs: Sequence[tuple[SummaryRow, SummaryRow]]) -> Judged:
    """Return the test of the mean difference of pairs; of a single pair, the test that the table has of it."""
    if len(pairs) == 1:
        before, after = pairs[0]
        judged = test_of_pair(summary.tests, (before.key, after.key))
        if judged is not None:
            return judged
    terms = []
    for pair in pairs:
        for sign, row in zip((-1, 1), pair, strict=True):
            scores = row.cells[-1].scores
            if scores is not None:
                terms.append((sign / len(pairs), scores))
    return judge(terms)


def _reference(data: StudyData, axis: AxisInfo, cells: Cells) -> str:
    """Return the reference label of an axis; see `AxisEffect.reference`."""
    preferred = axis.labels[0]
    for cell in data.cells:
        if cell.name == data.baseline:
            preferred = cell.labels[axis.name]

    for candidate in (preferred, *axis.labels):
        contexts = cells[candidate].keys()
        for label, cells_of_label in cells.items():
            if label != candidate and not contexts.isdisjoint(cells_of_label):
                return candidate
    return preferred


def _cells_by_label(data: StudyData, summary: Summary, axis: AxisInfo) -> Cells:
    """Return the rows that can be compared in the last column: label on `axis` -> context -> row."""
    examined = {axis.name, *together_with(data, axis)}
    other_names = []
    for other in data.axes:
        if other.name not in examined:
            other_names.append(other.name)

    cells: Cells = {label: {} for label in axis.labels}
    for row in summary.rows:
        if row.why_not_compared:
            continue
        encoder = ""
        if row.name != row.cell:
            encoder = row.encoder
        context = (encoder, *map(row.labels.__getitem__, other_names))
        cells[row.labels[axis.name]][context] = row
    return cells


def together_with(data: StudyData, axis: AxisInfo) -> tuple[str, ...]:
    """Return the axes whose labels correspond one-to-one to the labels of `axis` in all cells."""
    together = []
    for other in data.axes:
        if other.name == axis.name or len(other.labels) < 2:
            continue
        labels = set()
        other_labels = set()
        pairs = set()
        for cell in data.cells:
            label = cell.labels[axis.name]
            other_label = cell.labels[other.name]
            labels.add(label)
            other_labels.add(other_label)
            pairs.add((label, other_label))
        if len(pairs) == len(labels) == len(other_labels):
            together.append(other.name)
    return tuple(together)
