"""Main effects of a study's axes on one score column, and interactions of two axes.

Means are compared on matched cells only: each is over the same combinations of everything else. A mean over
other combinations may be higher although the label is worse in each of them (Simpson, 1951). What has no
score in these combinations is left out, and said. Nor are means over other seeds compared: where cells have
different ones, as when some were stopped, those count that all compared cells have.
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
"""Labels of a cell on all axes but the examined ones, and its encoder."""

Labels: TypeAlias = tuple[str, ...]
"""What is compared: a label of one axis, or of each of two."""

Cells: TypeAlias = dict[Labels, dict[Context, SummaryRow]]
"""Labels on the examined axes -> the rest of a cell -> its row."""


@attrs.frozen
class LabelEffect:
    """One label of an axis. Means are of the cells' means over their seeds."""

    label: str
    mean: float | None
    """Mean over the contexts, and the seeds, that all compared labels have; None for a label that is not
    compared."""
    contexts: int
    """How many these are."""
    difference: float | None
    """The mean of this label less the reference, over the pairs of cells that differ in nothing else, each
    over the seeds that both have."""
    std: float | None
    """Standard deviation of these differences; None for fewer than two."""
    pairs: int
    """How many these are."""


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
    """Axes that change together with this one, so that their effects cannot be separated."""
    left: Mapping[str, str] = attrs.field(factory=dict)
    """Labels without a mean -> why."""

    @property
    def compared(self) -> bool:
        """Whether labels are compared at all."""
        return any(label.mean is not None for label in self.labels)

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """Number and mean of each label, in order of the numbers; empty if the axis has no numbers."""
        pairs = zip(self.numbers or (), self.labels, strict=bool(self.numbers))
        return tuple(
            sorted(
                (number, label.mean)
                for number, label in pairs
                if label.mean is not None
            )
        )


@attrs.frozen
class Grid:
    """Means for each pair of labels of two axes, all over the same contexts."""

    rows: AxisInfo
    columns: AxisInfo
    means: tuple[tuple[float | None, ...], ...]
    """Means, by label of `rows` and label of `columns`, all over the same seeds; None if no such cell can be
    compared."""
    contexts: int
    """Number of cells of each mean."""
    left: Mapping[tuple[str, str], str]
    """Pairs of labels without a mean -> why."""


def main_effects(data: StudyData, summary: Summary) -> tuple[AxisEffect, ...]:
    """Return the effect of each axis with several labels on the last column, which is often the average."""
    return tuple(
        _effect(data, axis, summary) for axis in data.axes if len(axis.labels) > 1
    )


def interaction(data: StudyData, summary: Summary, rows: str, columns: str) -> Grid:
    """Return the means of the last column for each pair of labels of the axes `rows` and `columns`."""
    axes = {axis.name: axis for axis in data.axes}
    first, second = axes[rows], axes[columns]
    cells = cells_by_labels(data, summary, (first, second))
    kept, shared = _matched(cells)
    means = _means(cells, kept, shared)
    left = {}
    for pair in cells:
        if pair not in kept:
            labels = {rows: pair[0], columns: pair[1]}
            left[pair[0], pair[1]] = _why(data, cells[pair], labels)
    of_rows = []
    for row in first.labels:
        of_rows.append(tuple(means.get((row, column)) for column in second.labels))
    return Grid(first, second, tuple(of_rows), len(shared), left)


def _effect(data: StudyData, axis: AxisInfo, summary: Summary) -> AxisEffect:
    cells = cells_by_labels(data, summary, (axis,))
    of_baseline: Labels | None = None
    for cell in data.cells:
        if cell.name == data.baseline:
            of_baseline = (cell.labels[axis.name],)
    kept, shared = _matched(cells, of_baseline)
    if len(kept) < 2:
        # The mean of one label is no comparison.
        kept, shared = (), ()
    reference = of_baseline or (axis.labels[0],)
    if kept and reference not in kept:
        reference = kept[0]
    means = _means(cells, kept, shared)
    effects = []
    left = {}
    for (label,), of_label in cells.items():
        differences = []
        for context, row in of_label.items():
            if context in cells[reference]:
                differences.append(
                    _difference(_values(row), _values(cells[reference][context]))
                )
        contexts = len(shared)
        if (label,) not in kept:
            contexts = 0
            left[label] = _why(data, of_label, {axis.name: label})
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
    cells: Cells, kept: Collection[Labels], shared: Collection[Context]
) -> dict[Labels, float]:
    """Return the mean of each of `kept` over the contexts `shared`, with the same seeds everywhere."""
    values = {}
    for key in kept:
        values[key] = [_values(cells[key][context]) for context in shared]
    seeds = _shared_seeds([*chain.from_iterable(values.values())])
    means = {}
    for key, of_key in values.items():
        means[key] = fmean(_over(cell, seeds) for cell in of_key)
    return means


def _difference(cell: Mapping[int, float], reference: Mapping[int, float]) -> float:
    seeds = _shared_seeds([cell, reference])
    return _over(cell, seeds) - _over(reference, seeds)


def _shared_seeds(cells: Sequence[Mapping[int, float]]) -> set[int]:
    return set.intersection(*map(set, cells)) if cells else set()


def _over(cell: Mapping[int, float], seeds: Collection[int]) -> float:
    """Return the mean of a cell over `seeds`, or over all that it has where cells share none."""
    return fmean(cell[seed] for seed in seeds or cell)


def _matched(
    cells: Cells, reference: Labels | None = None
) -> tuple[tuple[Labels, ...], tuple[Context, ...]]:
    """Return what can be compared, and the contexts that all of it has.

    That is everything with a score, if there is a context that all of it has; else what shares one: with
    `reference` if anything does, then as much as possible, then over as many contexts as possible.
    """
    # More keys share fewer contexts, so that the keys of a context are the most that can be compared in it.
    keys_of: dict[Context, list[Labels]] = {}
    for key, of_key in cells.items():
        for context in of_key:
            keys_of.setdefault(context, []).append(key)
    choices = dict.fromkeys(map(tuple, keys_of.values()))

    def shared(keys: Collection[Labels]) -> tuple[Context, ...]:
        contexts = []
        for context, of_context in keys_of.items():
            if set(keys).issubset(of_context):
                contexts.append(context)
        return tuple(contexts)

    def rank(keys: Collection[Labels]) -> tuple[bool, int, int]:
        # A baseline without training may share nothing with the trained cells: they are compared without it.
        return reference in keys and len(keys) > 1, len(keys), len(shared(keys))

    best = max(choices, key=rank, default=())
    return best, shared(best) if best else ()


def _why(data: StudyData, cells: Collection[Context], labels: Mapping[str, str]) -> str:
    """Return why something with these labels is not compared; `cells` are the contexts in which it is."""
    if cells:
        return "no combination of everything else in common with what is compared"
    if any(_has(cell.labels, labels) for cell in data.cells):
        return "none of its cells has finished with this score"
    reasons = dict.fromkeys(map(" ".join, _excluded(data, labels)))
    if reasons:
        return f"left out of the study: {'; '.join(reasons)}"
    return "the study has no such cell"


def _excluded(data: StudyData, labels: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield the reasons of each cell with these labels that the study leaves out."""
    names = [axis.name for axis in data.axes]
    for cell, reasons in data.excluded:
        parts = cell.split(", ")
        if len(parts) != len(names):
            continue
        if _has(dict(zip(names, parts, strict=True)), labels):
            yield reasons


def _has(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(axis) == label for axis, label in wanted.items())


def cells_by_labels(
    data: StudyData, summary: Summary, axes: Sequence[AxisInfo]
) -> Cells:
    """Return the rows that can be compared in the last column, by their labels on `axes`, then on all others.

    They have finished, with numbers that say something about their encoder.
    """
    hidden = {axis.name for axis in axes}
    for axis in axes:
        hidden.update(together_with(data, axis))
    names = [axis.name for axis in axes]
    other_names = [axis.name for axis in data.axes if axis.name not in hidden]
    cells: Cells = {}
    for labels in product(*(axis.labels for axis in axes)):
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
