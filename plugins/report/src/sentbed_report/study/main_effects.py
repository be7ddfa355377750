"""Main effects of a study's axes on one score column, and interactions of two axes.

Means are compared on matched cells only: all are over the same combinations of the other axes. A mean over
different combinations may be higher although the label is worse in each of them (Simpson's paradox, 1951).
Labels without a score in these combinations are left out, with the reason. All means are also over the same
seeds: if cells have different seeds, as when some were stopped, those that all compared cells have.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, product
from statistics import fmean, stdev
from typing import TypeAlias

import attrs

from sentbed_report.study.study_data import AxisInfo, StudyData
from sentbed_report.study.summary_row import SummaryRow
from sentbed_report.study.summary_tables import Summary

Context: TypeAlias = tuple[str, ...]
"""Encoder of a cell, and its labels on all axes but the examined ones."""

Labels: TypeAlias = tuple[str, ...]
"""Labels on the examined axes: one label of a single axis, or one of each of two axes."""

Cells: TypeAlias = dict[Labels, dict[Context, SummaryRow]]
"""Labels on the examined axes -> context -> row of the cell."""


@attrs.frozen
class LabelEffect:
    """Mean of one label of an axis, and its difference from the reference label.

    Means over cells are means of the cells' means over seeds.
    """

    label: str
    mean: float | None
    """Mean over the contexts and seeds that all compared labels have; None for a label that is not compared."""
    contexts: int
    """Number of contexts of the mean."""
    difference: float | None
    """Mean difference from the reference, over the pairs of cells that differ only in this label, each over
    the seeds that both cells have; None without such a pair."""
    std: float | None
    """Standard deviation of the differences of these pairs; None for fewer than two."""
    pairs: int
    """Number of these pairs."""


@attrs.frozen
class AxisEffect:
    """Effect of one axis, label by label."""

    axis: str
    reference: str
    """Label of the baseline, or the first one."""
    labels: tuple[LabelEffect, ...]
    numbers: tuple[float, ...] | None
    """Numbers of the labels; see `AxisInfo.numbers`."""
    together: tuple[str, ...]
    """Axes that change together with this one, so their effects cannot be separated."""
    left: Mapping[str, str] = attrs.field(factory=dict)
    """Labels without a mean -> the reason."""

    @property
    def compared(self) -> bool:
        """Whether any labels are compared."""
        return any(label.mean is not None for label in self.labels)

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """Number and mean of each label, in order of the numbers; empty if the axis has no numbers."""
        if not self.numbers:
            return ()
        points = []
        for number, label in zip(self.numbers, self.labels, strict=True):
            if label.mean is not None:
                points.append((number, label.mean))
        return tuple(sorted(points))


@attrs.frozen
class Grid:
    """Means for each pair of labels of two axes, all over the same contexts."""

    rows: AxisInfo
    columns: AxisInfo
    means: tuple[tuple[float | None, ...], ...]
    """Means by label of `rows`, then by label of `columns`, all over the same seeds; None if no cell with these
    labels can be compared."""
    contexts: int
    """Number of cells of each mean."""
    left: Mapping[tuple[str, str], str]
    """Pairs of labels without a mean -> the reason."""


def main_effects(data: StudyData, summary: Summary) -> tuple[AxisEffect, ...]:
    """Return the effect of each axis with several labels on the last column, which is often the average."""
    effects = []
    for axis in data.axes:
        if len(axis.labels) > 1:
            effects.append(_effect(data, axis, summary))
    return tuple(effects)


def interaction(data: StudyData, summary: Summary, rows: str, columns: str) -> Grid:
    """Return the means of the last column for each pair of labels of the axes `rows` and `columns`."""
    axes = {axis.name: axis for axis in data.axes}
    first, second = axes[rows], axes[columns]
    cells = cells_by_labels(data, summary, (first, second))
    compared, contexts = _matched(cells)
    means = _means(cells, compared, contexts)
    grid = []
    left = {}
    for row in first.labels:
        means_of_row = []
        for column in second.labels:
            pair = (row, column)
            means_of_row.append(means.get(pair))
            if pair not in means:
                labels = {rows: row, columns: column}
                left[pair] = _why_not_compared(data, cells[pair], labels)
        grid.append(tuple(means_of_row))
    return Grid(first, second, tuple(grid), len(contexts), left)


def _effect(data: StudyData, axis: AxisInfo, summary: Summary) -> AxisEffect:
    """Return the effect of one axis; its reference is the baseline's label if that can be compared."""
    cells = cells_by_labels(data, summary, (axis,))
    of_baseline: Labels | None = None
    for cell in data.cells:
        if cell.name == data.baseline:
            of_baseline = (cell.labels[axis.name],)
    compared, shared = _matched(cells, of_baseline)
    if len(compared) < 2:
        # The mean of a single label is compared with nothing.
        compared, shared = (), ()
    reference = of_baseline or (axis.labels[0],)
    if compared and reference not in compared:
        reference = compared[0]
    means = _means(cells, compared, shared)
    cells_of_reference = cells[reference]
    effects = []
    left = {}
    for (label,), cells_of_label in cells.items():
        differences = []
        for context, row in cells_of_label.items():
            if context in cells_of_reference:
                values_of_reference = _values(cells_of_reference[context])
                differences.append(_difference(_values(row), values_of_reference))
        contexts = len(shared)
        if (label,) not in compared:
            contexts = 0
            labels = {axis.name: label}
            left[label] = _why_not_compared(data, cells_of_label, labels)
        difference = fmean(differences) if differences else None
        std = stdev(differences) if len(differences) > 1 else None
        mean = means.get((label,))
        effects.append(
            LabelEffect(label, mean, contexts, difference, std, len(differences))
        )
    together = together_with(data, axis)
    return AxisEffect(
        axis.name, reference[0], tuple(effects), axis.numbers, together, left
    )


def _values(row: SummaryRow) -> Mapping[int, float]:
    """Return seed -> score of a row in the last column."""
    return row.cells[-1].seeds


def _means(
    cells: Cells, compared: Collection[Labels], contexts: Collection[Context]
) -> dict[Labels, float]:
    """Return the mean of each of the compared labels over the contexts, and over the seeds that all have."""
    values = {}
    for labels in compared:
        values[labels] = [_values(cells[labels][context]) for context in contexts]
    seeds = _shared_seeds([*chain.from_iterable(values.values())])
    means = {}
    for labels, values_of_cells in values.items():
        means[labels] = fmean(_mean(cell, seeds) for cell in values_of_cells)
    return means


def _difference(cell: Mapping[int, float], reference: Mapping[int, float]) -> float:
    """Return the difference of two cells over the seeds that both have."""
    seeds = _shared_seeds([cell, reference])
    return _mean(cell, seeds) - _mean(reference, seeds)


def _shared_seeds(cells: Sequence[Mapping[int, float]]) -> set[int]:
    return set.intersection(*map(set, cells)) if cells else set()


def _mean(values: Mapping[int, float], seeds: Collection[int]) -> float:
    """Return the mean over `seeds`; over all seeds of `values` if there are no shared seeds."""
    return fmean(map(values.__getitem__, seeds or values))


def _matched(
    cells: Cells, reference: Labels | None = None
) -> tuple[tuple[Labels, ...], tuple[Context, ...]]:
    """Return the labels that can be compared, and the contexts in which all of them have a cell.

    If there is a context in which all labels have a cell, all are compared. Otherwise, the labels of one context
    are: preferably with `reference`, then as many labels as possible, then over as many contexts as possible.
    """
    labels_in: dict[Context, list[Labels]] = {}
    for labels, cells_of_labels in cells.items():
        for context in cells_of_labels:
            labels_in.setdefault(context, []).append(labels)

    def contexts_of(compared: Collection[Labels]) -> tuple[Context, ...]:
        contexts = []
        for context, labels_of_context in labels_in.items():
            if set(compared).issubset(labels_of_context):
                contexts.append(context)
        return tuple(contexts)

    def preference(compared: Collection[Labels]) -> tuple[bool, int, int]:
        # A baseline without training may share nothing with the trained cells: they are compared without it.
        has_reference = reference in compared and len(compared) > 1
        return has_reference, len(compared), len(contexts_of(compared))

    choices = dict.fromkeys(map(tuple, labels_in.values()))
    best = max(choices, key=preference, default=())
    return best, contexts_of(best)


def _why_not_compared(
    data: StudyData, contexts: Collection[Context], labels: Mapping[str, str]
) -> str:
    """Return why labels are not compared; in each of `contexts` they have a cell with a score."""
    if contexts:
        return "no combination of everything else in common with what is compared"
    if any(_has(cell.labels, labels) for cell in data.cells):
        return "none of its cells has finished with this score"
    reasons = dict.fromkeys(map(" ".join, _excluded(data, labels)))
    if reasons:
        return f"left out of the study: {'; '.join(reasons)}"
    return "the study has no such cell"


def _excluded(data: StudyData, labels: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield the reasons for leaving out each excluded cell with these labels."""
    names = [axis.name for axis in data.axes]
    for cell, reasons in data.excluded:
        parts = cell.split(", ")
        if len(parts) != len(names):
            continue
        if _has(dict(zip(names, parts, strict=True)), labels):
            yield reasons


def _has(labels: Mapping[str, str], subset: Mapping[str, str]) -> bool:
    return subset.items() <= labels.items()


def cells_by_labels(
    data: StudyData, summary: Summary, axes: Sequence[AxisInfo]
) -> Cells:
    """Return the rows that can be compared in the last column, by their labels on `axes`, then by context.

    Rows that have not finished, or whose score is degenerate or not finite, cannot.
    """
    hidden = {axis.name for axis in axes}
    for axis in axes:
        hidden.update(together_with(data, axis))
    names = [axis.name for axis in axes]
    other_names = [axis.name for axis in data.axes if axis.name not in hidden]
    cells: Cells = {}
    for labels in product(*[axis.labels for axis in axes]):
        cells[labels] = {}
    for row in summary.rows:
        values = _values(row)
        if row.status != "finished" or row.cells[-1].degenerate or not values:
            continue
        if all(map(math.isfinite, values.values())):
            encoder = row.encoder if row.name != row.cell else ""
            labels = tuple(map(row.labels.__getitem__, names))
            others = map(row.labels.__getitem__, other_names)
            cells[labels][encoder, *others] = row
    return cells


def together_with(data: StudyData, axis: AxisInfo) -> tuple[str, ...]:
    """Return the axes whose labels correspond one-to-one to those of `axis`."""
    together = []
    for other in data.axes:
        if other.name == axis.name or len(other.labels) < 2:
            continue
        labels = [cell.labels[axis.name] for cell in data.cells]
        other_labels = [cell.labels[other.name] for cell in data.cells]
        pairs = set(zip(labels, other_labels, strict=True))
        if len(pairs) == len(set(labels)) == len(set(other_labels)):
            together.append(other.name)
    return tuple(together)
