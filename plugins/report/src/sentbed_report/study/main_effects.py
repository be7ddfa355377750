"""Main effects of a study's axes on one score column, and interactions of two axes.

Means are compared on matched cells only: each is over the same combinations of everything else. A mean over
other combinations may be higher although the label is worse in each of them (Simpson, 1951). What has no
score in these combinations is left out, and said.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

import attrs

from sentbed_report.study.study_data import AxisInfo, StudyData
from sentbed_report.study.summary_tables import Summary, SummaryRow

Context: TypeAlias = tuple[str, ...]
"""Labels of a cell on all axes but the examined ones, and its encoder."""

Key = TypeVar("Key", bound=Hashable)
"""What is compared: a label, or a label of each of two axes."""


@attrs.frozen
class LabelEffect:
    """One label of an axis. Means are of the cells' means over their seeds."""

    label: str
    mean: float | None
    """Mean over the contexts that all compared labels have; None for a label that is not compared."""
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
    left: Mapping[str, str] = attrs.field(factory=dict)
    """Labels without a mean -> why."""

    @property
    def compared(self) -> bool:
        """Whether labels are compared at all."""
        return any(one.mean is not None for one in self.labels)

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """Number and mean of each label, in order of the numbers; empty if the axis has no numbers."""
        pairs = zip(self.numbers or (), self.labels, strict=bool(self.numbers))
        return tuple(sorted((number, one.mean) for number, one in pairs if one.mean is not None))


@attrs.frozen
class Grid:
    """Means for each pair of labels of two axes, all over the same contexts."""

    rows: AxisInfo
    columns: AxisInfo
    means: tuple[tuple[float | None, ...], ...]
    """Means, by label of `rows` and label of `columns`; None if no such cell can be compared."""
    contexts: int
    """Number of cells of each mean."""
    left: Mapping[tuple[str, str], str]
    """Pairs of labels without a mean -> why."""


def main_effects(data: StudyData, summary: Summary, column: int = -1) -> tuple[AxisEffect, ...]:
    """Return the effect of each axis with several labels on a column, by default the last (the average)."""
    return tuple(_effect(data, axis, summary, column) for axis in data.axes if len(axis.labels) > 1)


def interaction(data: StudyData, summary: Summary, rows: str, columns: str, column: int = -1) -> Grid:
    """Return the means of a column for each pair of labels of the axes `rows` and `columns`."""
    axes = {axis.name: axis for axis in data.axes}
    first, second = axes[rows], axes[columns]
    hidden = {rows, columns, *_together(data, first), *_together(data, second)}
    found: dict[tuple[str, str], dict[Context, float]] = {
        (a, b): {} for a in first.labels for b in second.labels
    }
    for row, value in _finished(summary, column):
        found[row.labels[rows], row.labels[columns]][_context(data, row, hidden)] = value
    kept, shared = _matched(found)
    return Grid(
        first,
        second,
        tuple(
            tuple(_mean([found[a, b][c] for c in shared]) if (a, b) in kept else None for b in second.labels)
            for a in first.labels
        ),
        len(shared),
        {
            pair: _why(data, cells, {rows: pair[0], columns: pair[1]})
            for pair, cells in found.items()
            if pair not in kept
        },
    )


def _effect(data: StudyData, axis: AxisInfo, summary: Summary, column: int) -> AxisEffect:
    together = _together(data, axis)
    values: dict[str, dict[Context, float]] = {label: {} for label in axis.labels}
    for row, value in _finished(summary, column):
        values[row.labels[axis.name]][_context(data, row, {axis.name, *together})] = value
    baseline = next((cell for cell in data.cells if cell.name == data.baseline), None)
    kept, shared = _matched(values, None if baseline is None else baseline.labels[axis.name])
    if len(kept) < 2:
        # The mean of one label is no comparison.
        kept, shared = (), ()
    reference = axis.labels[0] if baseline is None else baseline.labels[axis.name]
    if kept and reference not in kept:
        reference = kept[0]
    effects = []
    for label, cells in values.items():
        differences = [value - values[reference][c] for c, value in cells.items() if c in values[reference]]
        effects.append(
            LabelEffect(
                label,
                _mean([cells[context] for context in shared]) if label in kept else None,
                len(shared) if label in kept else 0,
                _mean(differences),
                _std(differences),
                len(differences),
            )
        )
    left = {
        label: _why(data, cells, {axis.name: label}) for label, cells in values.items() if label not in kept
    }
    return AxisEffect(axis.name, reference, tuple(effects), axis.numbers, together, left)


def _matched(
    found: Mapping[Key, Mapping[Context, float]], reference: Key | None = None
) -> tuple[tuple[Key, ...], tuple[Context, ...]]:
    """Return what can be compared, and the contexts that all of it has.

    That is everything with a score, if there is a context that all of it has; else what shares one: with
    `reference` if anything does, then as much as possible, then over as many contexts as possible.
    """
    scored = [key for key, cells in found.items() if cells]
    contexts = dict.fromkeys(context for key in scored for context in found[key])
    # More keys share fewer contexts, so that the keys of a context are the most that can be compared in it.
    choices = dict.fromkeys(tuple(key for key in scored if context in found[key]) for context in contexts)

    def shared(keys: Collection[Key]) -> tuple[Context, ...]:
        return tuple(context for context in contexts if all(context in found[key] for key in keys))

    def rank(keys: Collection[Key]) -> tuple[bool, int, int]:
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
    reasons = dict.fromkeys(" ".join(reasons) for reasons in _excluded(data, labels))
    return f"left out of the study: {'; '.join(reasons)}" if reasons else "the study has no such cell"


def _excluded(data: StudyData, labels: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield the reasons of each cell with these labels that the study leaves out."""
    names = [axis.name for axis in data.axes]
    for cell, reasons in data.excluded:
        parts = cell.split(", ")
        if len(parts) == len(names) and _has(dict(zip(names, parts, strict=True)), labels):
            yield reasons


def _has(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(axis) == label for axis, label in wanted.items())


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
