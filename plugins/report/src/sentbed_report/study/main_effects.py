"""Main effects of a study's axes on one score column.

An effect of a label is the mean difference from the axis's reference label over all pairs of cells that differ
only in this axis. Otherwise a label could have the higher mean although it is worse in every combination
(Simpson's paradox, 1951).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from statistics import fmean, stdev
from typing import TypeAlias

import attrs

from sentbed_report.statistics.significance import shared_seeds
from sentbed_report.study.study_data import AxisInfo, StudyData
from sentbed_report.study.summary_row import SummaryRow
from sentbed_report.study.summary_tables import Summary

Context: TypeAlias = tuple[str, ...]
"""Encoder of a cell, and the cell's labels on all axes except the examined one."""

Cells: TypeAlias = dict[str, dict[Context, SummaryRow]]
"""Label of the examined axis -> context -> row of the cell with this label in this context."""


@attrs.frozen
class LabelEffect:
    """Difference of one label of an axis from the reference label."""

    label: str
    difference: float | None
    """Mean difference from the reference label over the pairs of cells that differ only in this axis; each
    pair is compared over the seeds that both have. None without such a pair."""
    std: float | None
    """Standard deviation of the differences over these pairs; None for fewer than two pairs."""
    pairs: int
    """Number of these pairs."""


@attrs.frozen
class AxisEffect:
    """Effect of one axis, label by label."""

    axis: str
    reference: str
    """Label of the baseline, by default the first label; if no pair of cells has that label, the first one that
    has a pair."""
    labels: tuple[LabelEffect, ...]
    """All labels except the reference."""
    together: tuple[str, ...]
    """Axes whose labels always change together with the labels of this axis, so their effects cannot be
    separated."""

    @property
    def compared(self) -> bool:
        """Whether any label is compared with the reference."""
        return any(label.pairs for label in self.labels)


def main_effects(data: StudyData, summary: Summary) -> tuple[AxisEffect, ...]:
    """Return the effect of each axis with several labels, in the last column of a table."""
    effects = []
    for axis in data.axes:
        if len(axis.labels) > 1:
            effects.append(_effect_of_axis(data, axis, summary))
    return tuple(effects)


def _effect_of_axis(
    data: StudyData,
    axis: AxisInfo,
    summary: Summary,
) -> AxisEffect:
    """Return the effect of one axis."""
    cells = cells_by_label(data, summary, axis)
    reference = _reference(data, axis, cells)
    effects = []
    for label, cells_of_label in cells.items():
        if label == reference:
            continue
        differences = list(_differences(cells_of_label, cells[reference]))
        difference = None
        if differences:
            difference = fmean(differences)
        std = None
        if len(differences) > 1:
            std = stdev(differences)
        effects.append(LabelEffect(label, difference, std, len(differences)))

    together = together_with(data, axis)
    return AxisEffect(axis.name, reference, tuple(effects), together)


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


def _differences(
    cells: Mapping[Context, SummaryRow], references: Mapping[Context, SummaryRow]
) -> Iterator[float]:
    """Yield the difference from the reference in each context in which both have a cell.

    A difference is of means over the seeds that both cells have; if they share no seed, over all seeds.
    """
    for context, row in cells.items():
        if context not in references:
            continue
        cell = _values(row)
        reference = _values(references[context])
        seeds = shared_seeds([cell, reference])
        yield _mean_over_seeds(cell, seeds) - _mean_over_seeds(reference, seeds)


def _values(row: SummaryRow) -> Mapping[int, float]:
    """Return seed -> score of a row in the last column."""
    return row.cells[-1].seeds


def _mean_over_seeds(values: Mapping[int, float], seeds: Collection[int]) -> float:
    """Return the mean over `seeds`; over all seeds in `values` if `seeds` is empty."""
    return fmean(map(values.__getitem__, seeds or values))


def cells_by_label(data: StudyData, summary: Summary, axis: AxisInfo) -> Cells:
    """Return the rows that can be compared in the last column: label on `axis` -> context -> row.

    Rows that have not finished, or whose score is not finite, are left out.
    """
    examined = {axis.name, *together_with(data, axis)}
    other_names = []
    for other in data.axes:
        if other.name not in examined:
            other_names.append(other.name)

    cells: Cells = {}
    for label in axis.labels:
        cells[label] = {}
    for row in summary.rows:
        if not _is_comparable(row):
            continue
        encoder = ""
        if row.name != row.cell:
            encoder = row.encoder
        context = (encoder, *map(row.labels.__getitem__, other_names))
        cells[row.labels[axis.name]][context] = row
    return cells


def _is_comparable(row: SummaryRow) -> bool:
    """Whether a row has finished, with finite scores in the last column."""
    values = _values(row)
    if row.status != "finished" or not values:
        return False
    return all(map(math.isfinite, values.values()))


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
