"""Main effects of a study's axes on one score column, and interactions of two axes.

Only means over matched cells are compared: all means are over the same combinations of labels on the other
axes. Otherwise a label could have the higher mean although it is worse in every combination (Simpson's paradox,
1951). A label without a score in these combinations is left out, with the reason. All means are also over the
same seeds, which all compared cells have. If the cells share no seed, each cell's mean is over its own seeds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, product
from statistics import fmean, stdev
from typing import TypeAlias

import attrs

from sentbed_report.statistics.significance import shared_seeds
from sentbed_report.study.study_data import AxisInfo, StudyData
from sentbed_report.study.summary_row import SummaryRow
from sentbed_report.study.summary_tables import Summary

Context: TypeAlias = tuple[str, ...]
"""Encoder of a cell, and the cell's labels on all axes except the examined ones."""

Labels: TypeAlias = tuple[str, ...]
"""Labels on the examined axes: one label of one axis, or one label of each of two axes."""

Cells: TypeAlias = dict[Labels, dict[Context, SummaryRow]]
"""Labels on the examined axes -> context -> row of the cell with these labels in this context."""


@attrs.frozen
class LabelEffect:
    """Mean of one label of an axis, and its difference from the reference label.

    For both, each cell's scores are averaged over the seeds, then these averages over the cells.
    """

    label: str
    mean: float | None
    """Mean over the contexts and seeds that all compared labels have; None if this label is not compared."""
    contexts: int
    """Number of contexts over which the mean is taken."""
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
    """Label of the baseline, by default the first label; if that label cannot be compared, another one that
    can."""
    labels: tuple[LabelEffect, ...]
    numbers: tuple[float, ...] | None
    """The number that each label sets in the recipe; see `AxisInfo.numbers`."""
    together: tuple[str, ...]
    """Axes whose labels always change together with the labels of this axis, so their effects cannot be
    separated."""
    left: Mapping[str, str] = attrs.field(factory=dict)
    """Label that is not compared -> the reason."""

    @property
    def compared(self) -> bool:
        """Whether any labels are compared."""
        return any(label.mean is not None for label in self.labels)

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """The number that each compared label sets, with the label's mean, sorted; empty without numbers."""
        if not self.numbers:
            return ()
        points = []
        for number, label in zip(self.numbers, self.labels, strict=True):
            if label.mean is not None:
                points.append((number, label.mean))
        return tuple(sorted(points))


@attrs.frozen
class Grid:
    """Mean for each pair of labels of two axes, all over the same contexts and seeds."""

    rows: AxisInfo
    columns: AxisInfo
    means: tuple[tuple[float | None, ...], ...]
    """Means by label of `rows`, then by label of `columns`; None if no cell with these labels can be compared."""
    contexts: int
    """Number of cells over which each mean is taken."""
    left: Mapping[tuple[str, str], str]
    """Pair of labels without a mean -> the reason."""


def main_effects(data: StudyData, summary: Summary) -> tuple[AxisEffect, ...]:
    """Return the effect of each axis with several labels, in the last column of a table."""
    effects = []
    for axis in data.axes:
        if len(axis.labels) > 1:
            effects.append(_effect_of_axis(data, axis, summary))
    return tuple(effects)


def interaction(
    data: StudyData,
    summary: Summary,
    rows: str,
    columns: str,
) -> Grid:
    """Return the mean in the last column for each pair of labels of the axes `rows` and `columns`."""
    axes = {axis.name: axis for axis in data.axes}
    first = axes[rows]
    second = axes[columns]
    cells = cells_by_labels(data, summary, (first, second))
    compared, contexts = _labels_and_contexts(cells)
    means = _means_of_labels(cells, compared, contexts)

    grid = []
    left = {}
    for first_label in first.labels:
        means_of_row = []
        for second_label in second.labels:
            pair = (first_label, second_label)
            means_of_row.append(means.get(pair))
            if pair not in means:
                labels = {rows: first_label, columns: second_label}
                left[pair] = _why_not_compared(data, cells[pair], labels)
        grid.append(tuple(means_of_row))
    return Grid(first, second, tuple(grid), len(contexts), left)


def _effect_of_axis(
    data: StudyData,
    axis: AxisInfo,
    summary: Summary,
) -> AxisEffect:
    """Return the effect of one axis; its reference is the baseline's label if this label can be compared."""
    cells = cells_by_labels(data, summary, (axis,))
    reference: Labels | None = None
    for cell in data.cells:
        if cell.name == data.baseline:
            reference = (cell.labels[axis.name],)

    compared, shared_contexts = _labels_and_contexts(cells, reference)
    if len(compared) < 2:
        # A single label has no other label with which it could be compared.
        compared = ()
        shared_contexts = ()
    if reference is None:
        reference = (axis.labels[0],)
    if compared and reference not in compared:
        reference = compared[0]
    means = _means_of_labels(cells, compared, shared_contexts)

    effects = []
    left = {}
    for labels, cells_of_label in cells.items():
        (label,) = labels
        number_of_contexts = len(shared_contexts)
        if labels not in compared:
            number_of_contexts = 0
            left[label] = _why_not_compared(data, cells_of_label, {axis.name: label})
        differences = _differences_in_contexts(cells_of_label, cells[reference])
        difference = None
        if differences:
            difference = fmean(differences)
        std = None
        if len(differences) > 1:
            std = stdev(differences)
        effects.append(
            LabelEffect(
                label,
                mean=means.get(labels),
                contexts=number_of_contexts,
                difference=difference,
                std=std,
                pairs=len(differences),
            )
        )

    together = together_with(data, axis)
    return AxisEffect(
        axis.name, reference[0], tuple(effects), axis.numbers, together, left
    )


def _differences_in_contexts(
    cells: Mapping[Context, SummaryRow], references: Mapping[Context, SummaryRow]
) -> list[float]:
    """Return the difference from the reference in each context in which both have a cell.

    A difference is of means over the seeds that both cells have.
    """
    differences = []
    for context, row in cells.items():
        if context not in references:
            continue
        cell = _values(row)
        reference = _values(references[context])
        seeds = shared_seeds([cell, reference])
        difference = _mean_over_seeds(cell, seeds) - _mean_over_seeds(reference, seeds)
        differences.append(difference)
    return differences


def _values(row: SummaryRow) -> Mapping[int, float]:
    """Return seed -> score of a row in the last column."""
    return row.cells[-1].seeds


def _means_of_labels(
    cells: Cells,
    compared: Collection[Labels],
    contexts: Collection[Context],
) -> dict[Labels, float]:
    """Return the mean of each compared label over the contexts, and over the seeds that all these cells have."""
    if not compared:
        return {}
    values = {}
    for labels in compared:
        values[labels] = [_values(cells[labels][context]) for context in contexts]
    seeds = shared_seeds([*chain.from_iterable(values.values())])

    means = {}
    for labels, of_contexts in values.items():
        means_of_contexts = []
        for of_cell in of_contexts:
            means_of_contexts.append(_mean_over_seeds(of_cell, seeds))
        means[labels] = fmean(means_of_contexts)
    return means


def _mean_over_seeds(values: Mapping[int, float], seeds: Collection[int]) -> float:
    """Return the mean over `seeds`; over all seeds in `values` if `seeds` is empty."""
    return fmean(map(values.__getitem__, seeds or values))


def _labels_and_contexts(
    cells: Cells, reference: Labels | None = None
) -> tuple[tuple[Labels, ...], tuple[Context, ...]]:
    """Return the labels that can be compared, and the contexts in which all these labels have a cell.

    All labels are compared if they share a context. Otherwise, the labels of one context are compared. Contexts
    with `reference` are preferred, then contexts with the most labels, then those whose labels share the most
    contexts.
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
        # A baseline without training may share no context with the trained cells, which are then compared alone.
        has_reference = reference in compared and len(compared) > 1
        return has_reference, len(compared), len(contexts_of(compared))

    choices = dict.fromkeys(map(tuple, labels_in.values()))
    best = max(choices, key=preference, default=())
    return best, contexts_of(best)


def _why_not_compared(
    data: StudyData,
    contexts: Collection[Context],
    labels: Mapping[str, str],
) -> str:
    """Return why labels are not compared; `contexts` are those in which they have a cell with a score."""
    if contexts:
        return "no combination of everything else in common with what is compared"
    if any(_has_labels(cell.labels, labels) for cell in data.cells):
        return "none of its cells has finished with this score"
    reasons = dict.fromkeys(map(" ".join, _reasons_for_exclusion(data, labels)))
    if reasons:
        return f"left out of the study: {'; '.join(reasons)}"
    return "the study has no such cell"


def _reasons_for_exclusion(
    data: StudyData, labels: Mapping[str, str]
) -> Iterator[tuple[str, ...]]:
    """For each cell with these labels that the study leaves out, yield the reasons."""
    names = [axis.name for axis in data.axes]
    for cell, reasons in data.excluded:
        parts = cell.split(", ")
        if len(parts) != len(names):
            continue
        labels_of_cell = dict(zip(names, parts, strict=True))
        if _has_labels(labels_of_cell, labels):
            yield reasons


def _has_labels(labels: Mapping[str, str], subset: Mapping[str, str]) -> bool:
    return subset.items() <= labels.items()


def cells_by_labels(
    data: StudyData,
    summary: Summary,
    axes: Sequence[AxisInfo],
) -> Cells:
    """Return the rows that can be compared in the last column: labels on `axes` -> context -> row.

    Rows that have not finished, or whose score is degenerate or not finite, are left out.
    """
    names = []
    labels_of_axes = []
    examined = set()
    for axis in axes:
        names.append(axis.name)
        labels_of_axes.append(axis.labels)
        examined.update([axis.name, *together_with(data, axis)])
    other_names = [axis.name for axis in data.axes if axis.name not in examined]

    cells: Cells = {labels: {} for labels in product(*labels_of_axes)}
    for row in summary.rows:
        if not _is_comparable(row):
            continue
        encoder = ""
        if row.name != row.cell:
            encoder = row.encoder
        labels = tuple(row.labels[name] for name in names)
        other_labels = [row.labels[name] for name in other_names]
        cells[labels][encoder, *other_labels] = row
    return cells


def _is_comparable(row: SummaryRow) -> bool:
    """Whether a row has finished, with scores in the last column that are finite and not degenerate."""
    values = _values(row)
    if row.status != "finished" or row.cells[-1].degenerate or not values:
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
