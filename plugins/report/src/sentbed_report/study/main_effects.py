"""Main effects of a study's axes on one score column, and interactions of two axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import attrs

from sentbed_report.study.study_data import AxisInfo, StudyData
from sentbed_report.study.summary import Summary, SummaryRow

Context: TypeAlias = tuple[str, ...]
"""Labels of a cell on all axes but the examined ones, and its encoder."""


@attrs.frozen
class LabelEffect:
    """One label of an axis. Means are of the cells' means over their seeds."""

    label: str
    mean: float | None
    """Mean over the contexts in which every label has finished, so that labels are comparable."""
    contexts: int
    """How many these are."""
    difference: float | None
    """The mean of this label less the reference, over the pairs of cells that differ in nothing else."""
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

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """Number and mean of each label, in order of the numbers; empty if the axis has no numbers."""
        pairs = zip(self.numbers or (), self.labels, strict=bool(self.numbers))
        return tuple(sorted((number, one.mean) for number, one in pairs if one.mean is not None))


@attrs.frozen
class Grid:
    """Means for each pair of labels of two axes."""

    rows: AxisInfo
    columns: AxisInfo
    means: tuple[tuple[float | None, ...], ...]
    """Means, by label of `rows` and label of `columns`; None if no such cell has finished."""
    counts: tuple[tuple[int, ...], ...]
    """Number of cells of each mean."""
    balanced: bool
    """Whether all means are over the same contexts."""


def main_effects(data: StudyData, summary: Summary, column: int = -1) -> tuple[AxisEffect, ...]:
    """Return the effect of each axis with several labels on a column, by default the last (the average)."""
    return tuple(_effect(data, axis, summary, column) for axis in data.axes if len(axis.labels) > 1)


def interaction(data: StudyData, summary: Summary, rows: str, columns: str, column: int = -1) -> Grid:
    """Return the means of a column for each pair of labels of the axes `rows` and `columns`."""
    axes = {axis.name: axis for axis in data.axes}
    first, second = axes[rows], axes[columns]
    hidden = {rows, columns, *_together(data, first), *_together(data, second)}
    found: dict[tuple[str, str], dict[Context, float]] = {}
    for row, value in _finished(summary, column):
        place = row.labels[rows], row.labels[columns]
        found.setdefault(place, {})[_context(data, row, hidden)] = value
    table = [[found.get((a, b), {}) for b in second.labels] for a in first.labels]
    return Grid(
        first,
        second,
        tuple(tuple(_mean(list(cells.values())) for cells in line) for line in table),
        tuple(tuple(map(len, line)) for line in table),
        len({frozenset(cells) for line in table for cells in line}) == 1,
    )


def _effect(data: StudyData, axis: AxisInfo, summary: Summary, column: int) -> AxisEffect:
    together = _together(data, axis)
    values: dict[str, dict[Context, float]] = {label: {} for label in axis.labels}
    for row, value in _finished(summary, column):
        values[row.labels[axis.name]][_context(data, row, {axis.name, *together})] = value
    baseline = next((cell for cell in data.cells if cell.name == data.baseline), None)
    reference = axis.labels[0] if baseline is None else baseline.labels[axis.name]
    shared = [c for c in values[axis.labels[0]] if all(c in cells for cells in values.values())]
    effects = []
    for label, cells in values.items():
        differences = [value - values[reference][c] for c, value in cells.items() if c in values[reference]]
        effects.append(
            LabelEffect(
                label,
                _mean([cells[context] for context in shared]),
                len(shared),
                _mean(differences),
                _std(differences),
                len(differences),
            )
        )
    return AxisEffect(axis.name, reference, tuple(effects), axis.numbers, together)


def _finished(summary: Summary, column: int) -> list[tuple[SummaryRow, float]]:
    found = [(row, row.cells[column].mean) for row in summary.rows if row.status == "finished"]
    return [(row, mean) for row, mean in found if mean is not None and math.isfinite(mean)]


def _context(data: StudyData, row: SummaryRow, hidden: set[str]) -> Context:
    encoder = row.encoder if row.name != row.cell else ""
    return (encoder, *(row.labels[axis.name] for axis in data.axes if axis.name not in hidden))


def _together(data: StudyData, axis: AxisInfo) -> tuple[str, ...]:
    """Return the axes whose labels correspond one-to-one to those of `axis`."""

    def goes(one: str, other: str) -> bool:
        seen: dict[str, str] = {}
        labels: Sequence[Mapping[str, str]] = [cell.labels for cell in data.cells]
        return all(seen.setdefault(each[one], each[other]) == each[other] for each in labels)

    others = [other for other in data.axes if other.name != axis.name and len(other.labels) > 1]
    return tuple(o.name for o in others if goes(axis.name, o.name) and goes(o.name, axis.name))


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _std(values: Sequence[float]) -> float | None:
    mean = _mean(values)
    if mean is None or len(values) < 2:
        return None
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
