"""Main effects of a study's axes on one score column, and interactions of two axes.

Means are compared on matched cells only: each is over the same combinations of everything else. A mean over
other combinations may be higher although the label is worse in each of them (Simpson, 1951). What has no
score in these combinations is left out, and said. Nor are means over other seeds compared: where cells have
different ones, as when some were stopped, those count that all compared cells have.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

import attrs

from sentbed_report.study.study_data import AxisInfo, StudyData
from sentbed_report.study.summary_row import SummaryRow
from sentbed_report.study.summary_tables import Summary

Context: TypeAlias = tuple[str, ...]
"""Labels of a cell on all axes but the examined ones, and its encoder."""

Values: TypeAlias = Mapping[int, float]
"""Seed -> score of a cell."""

Key = TypeVar("Key", bound=Hashable)
"""What is compared: a label, or a label of each of two axes."""


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
    """Means, by label of `rows` and label of `columns`, all over the same seeds; None if no such cell can be
    compared."""
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
    hidden = {rows, columns, *together_with(data, first), *together_with(data, second)}
    found: dict[tuple[str, str], dict[Context, Values]] = {
        (a, b): {} for a in first.labels for b in second.labels
    }
    for row, of_cell in finished_rows(summary, column):
        found[row.labels[rows], row.labels[columns]][context_of(data, row, hidden)] = of_cell
    kept, shared = _matched(found)
    means = _means(found, kept, shared)
    return Grid(
        first,
        second,
        tuple(tuple(means.get((a, b)) for b in second.labels) for a in first.labels),
        len(shared),
        {
            pair: _why(data, cells, {rows: pair[0], columns: pair[1]})
            for pair, cells in found.items()
            if pair not in kept
        },
    )


def _effect(data: StudyData, axis: AxisInfo, summary: Summary, column: int) -> AxisEffect:
    together = together_with(data, axis)
    values: dict[str, dict[Context, Values]] = {label: {} for label in axis.labels}
    for row, of_cell in finished_rows(summary, column):
        values[row.labels[axis.name]][context_of(data, row, {axis.name, *together})] = of_cell
    baseline = next((cell for cell in data.cells if cell.name == data.baseline), None)
    kept, shared = _matched(values, None if baseline is None else baseline.labels[axis.name])
    if len(kept) < 2:
        # The mean of one label is no comparison.
        kept, shared = (), ()
    reference = axis.labels[0] if baseline is None else baseline.labels[axis.name]
    if kept and reference not in kept:
        reference = kept[0]
    effects = []
    means, before = _means(values, kept, shared), values[reference]
    for label, cells in values.items():
        differences = [_difference(of_cell, before[c]) for c, of_cell in cells.items() if c in before]
        effects.append(
            LabelEffect(
                label,
                means.get(label),
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


def _means(
    found: Mapping[Key, Mapping[Context, Values]], kept: Collection[Key], shared: Collection[Context]
) -> dict[Key, float | None]:
    """Return the mean of each of `kept` over the contexts `shared`, with the same seeds everywhere."""
    seeds = _shared_seeds([found[key][context] for key in kept for context in shared])
    return {key: _mean([_over(found[key][context], seeds) for context in shared]) for key in kept}


def _difference(cell: Values, reference: Values) -> float:
    seeds = _shared_seeds([cell, reference])
    return _over(cell, seeds) - _over(reference, seeds)


def _shared_seeds(cells: Sequence[Values]) -> set[int]:
    return set.intersection(*map(set, cells)) if cells else set()


def _over(cell: Values, seeds: Collection[int]) -> float:
    """Return the mean of a cell over `seeds`, or over all that it has where cells share none."""
    return math.fsum(cell[seed] for seed in seeds or cell) / len(seeds or cell)


def _matched(
    found: Mapping[Key, Mapping[Context, Values]], reference: Key | None = None
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


def finished_rows(summary: Summary, column: int) -> list[tuple[SummaryRow, Values]]:
    """Return rows that have finished, with their values; none that says nothing about its encoder."""
    found = [
        (row, row.cells[column].seeds)
        for row in summary.rows
        if row.status == "finished" and not row.cells[column].degenerate
    ]
    return [(row, values) for row, values in found if values and all(map(math.isfinite, values.values()))]


def context_of(data: StudyData, row: SummaryRow, hidden: set[str]) -> Context:
    """Return the labels of a row on all axes but the hidden ones, and its encoder if there are several."""
    encoder = row.encoder if row.name != row.cell else ""
    return (encoder, *(row.labels[axis.name] for axis in data.axes if axis.name not in hidden))


def together_with(data: StudyData, axis: AxisInfo) -> tuple[str, ...]:
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
