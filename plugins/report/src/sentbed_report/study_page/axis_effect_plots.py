"""Plots of axis effects: mean score per label, and lines over numeric axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import attrs

from sentbed_report.formatting import number
from sentbed_report.matplotlib_svg import Drawing, colour, label_text, legend_above
from sentbed_report.run_plots import WIDTH, Plot
from sentbed_report.study.main_effects import AxisEffect, main_effects
from sentbed_report.study.study_data import AxisInfo, StudyData
from sentbed_report.study.summary_tables import Summary, title_of
from sentbed_report.study_page.cell_plots import name_rows
from sentbed_report.study_page.line_styles import TONES, spans_powers, tone, with_sizes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TICKS = 8
"""More labels below a line stand in each other's way."""

_THIN = 60
"""More lines behind the mean are a surface."""

_DASHES = ((6.0, 3.0), (3.0, 2.0), (1.5, 2.0), (8.0, 2.0, 2.0, 2.0), (4.0, 2.0, 1.0, 2.0), (10.0, 4.0))
"""Lengths of dash and gap of the references, which all have one colour: they are no axis of the study."""


@attrs.frozen
class _Line:
    """Cells that differ in one axis only."""

    name: str
    places: tuple[tuple[float, float, float | None], ...]
    """Number, mean and standard deviation, in the order of the numbers."""


@attrs.frozen
class _Reference:
    """Dashed line of a system that cells are compared with."""

    name: str
    value: float
    source: str

    def style(self, index: int) -> tuple[int, tuple[float, ...]]:
        """Return the dashes of the line with this number."""
        return 0, _DASHES[index % len(_DASHES)]


def effects_plot(data: StudyData, summary: Summary, name: str) -> Plot | None:
    """Draw the cells of each label and the label's mean, all axes below each other on one scale."""
    effects = [one for one in main_effects(data, summary) if one.compared]
    if not effects:
        return None
    cells = {
        (axis.name, label): _values(summary, axis.name, label) for axis in data.axes for label in axis.labels
    }
    heights = [len(effect.labels) + 0.6 for effect in effects]

    def paint(figure: Figure) -> None:
        parts = figure.subplots(len(effects), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
        for index, (axes, effect) in enumerate(zip(parts, effects, strict=True)):
            shade = colour(f"c{index % TONES}")
            for row, one in enumerate(effect.labels):
                values = cells[effect.axis, one.label]
                axes.plot(values, [row] * len(values), "o", color=shade, markersize=5, alpha=0.35, mew=0)
                if one.mean is not None:
                    axes.plot(one.mean, row, "D", color=shade, markersize=8)
            name_rows(axes, [one.label for one in effect.labels])
            axes.set_title(label_text(effect.axis), loc="left", fontsize="medium", color=colour("muted"))
        parts[-1].set_xlabel(label_text(summary.headings[-1]))
        figure.align_ylabels()

    told = "; ".join(
        f"{effect.axis} {one.label}: {number(one.mean, summary.digits)}"
        for effect in effects
        for one in effect.labels
    )
    title = title_of(summary)
    label = label_text(f"Effect of each axis on {title}. {told}", 400)
    caption = "Diamond: the mean of a label, as in the table; dots: its cells."
    return Plot(Drawing(name, label, WIDTH, round(70 + 26 * sum(heights)), paint), title, caption)


def number_plots(data: StudyData, summary: Summary, name: str) -> tuple[Plot, ...]:
    """Draw the last column over each axis of numbers, model sizes among them, with the references.

    A cell that computes a reference is a dashed line instead of a point.
    """
    lines_of = tuple(_references(summary))
    data, summary = _without_references(data, summary)
    sized = attrs.evolve(data, axes=tuple(map(with_sizes, data.axes)))
    plots = []
    for index, effect in enumerate(main_effects(sized, summary)):
        axis = next(axis for axis in sized.axes if axis.name == effect.axis)
        if len(set(axis.numbers or ())) > 1 and (lines := _lines(sized, axis, effect, summary)):
            plots.append(_number_plot(axis, effect, lines, lines_of, summary, f"{name}{index}"))
    return tuple(plots)


def _references(summary: Summary) -> Iterator[_Reference]:
    for one in summary.references:
        value = one.values[-1]
        if value is not None and math.isfinite(value):
            yield _Reference(one.name, value, one.source or "this study")


def _without_references(data: StudyData, summary: Summary) -> tuple[StudyData, Summary]:
    """Return study and table without the cells that compute a reference, and labels that only these have."""
    drawn = {reference.cell for reference in data.references.values()}
    cells = tuple(cell for cell in data.cells if cell.name not in drawn)
    if len(cells) == len(data.cells):
        return data, summary
    axes = []
    for axis in data.axes:
        kept = [label for label in axis.labels if any(cell.labels[axis.name] == label for cell in cells)]
        numbers = None if axis.numbers is None else dict(zip(axis.labels, axis.numbers, strict=True))
        left = None if numbers is None else tuple(numbers[label] for label in kept)
        axes.append(attrs.evolve(axis, labels=tuple(kept), numbers=left))
    rows = tuple(row for row in summary.rows if row.cell not in drawn)
    return attrs.evolve(data, axes=tuple(axes), cells=cells), attrs.evolve(summary, rows=rows)


def _number_plot(
    axis: AxisInfo,
    effect: AxisEffect,
    lines: Sequence[_Line],
    references: Sequence[_Reference],
    summary: Summary,
    name: str,
) -> Plot:
    coloured = len(lines) <= TONES

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for index, line in enumerate(lines if coloured else lines[:_THIN]):
            x, y, spread = zip(*line.places, strict=True)
            if not coloured:
                axes.plot(x, y, color=colour("muted"), linewidth=0.8, alpha=0.5)
                continue
            look = tone(index)
            axes.errorbar(
                x,
                y,
                yerr=[one or 0.0 for one in spread] if any(spread) else None,
                color=look.colour,
                marker=look.marker,
                markersize=4.5,
                linewidth=1.6,
                elinewidth=1,
                capsize=3,
                label=label_text(line.name, 28),
            )
        if not coloured and effect.points:
            axes.plot(*zip(*effect.points, strict=True), color=colour("c0"), marker="o", linewidth=2.4)
        for index, one in enumerate(references):
            text = label_text(one.name, 28)
            axes.axhline(one.value, color=colour("fg"), linewidth=1.3, linestyle=one.style(index), label=text)
        axes.set_xlabel(label_text(axis.name))
        axes.set_ylabel(label_text(summary.headings[-1]))
        axes.margins(x=0.06, y=0.1)
        _number_axis(axes, axis)
        if references or (coloured and len(lines) > 1):
            legend_above(axes, 3)

    points = "; ".join(f"{x:g}: {number(y, summary.digits)}" for x, y in effect.points)
    title = f"{title_of(summary)} by {axis.name}"
    dashed = "; ".join(f"{one.name} {number(one.value, summary.digits)} ({one.source})" for one in references)
    label = label_text(f"{title}. Mean by number: {points}" + (f". Dashed: {dashed}" if dashed else ""), 800)
    parts = [f"Dashed: {dashed}."] if dashed else []
    if coloured:
        if any(spread for line in lines for *_, spread in line.places):
            parts.append("Bars: standard deviation over the seeds.")
    else:
        parts.append(f"Thin: cells that differ in {axis.name} only; thick: their mean.")
        if len(lines) > _THIN:
            parts.append(f"The first {_THIN} of {len(lines):,} lines are drawn, the mean is over all.")
    entries = len(lines) * coloured + len(references)
    height = 290 + 17 * math.ceil(entries / 3)
    return Plot(Drawing(name, label, WIDTH, height, paint), title, " ".join(parts))


def _number_axis(axes: Axes, axis: AxisInfo) -> None:
    from matplotlib.ticker import NullLocator

    numbers = axis.numbers or ()
    if spans_powers(numbers):
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    if len(numbers) <= _TICKS:
        axes.set_xticks(numbers, [label_text(label, 12) for label in axis.labels])


def _lines(data: StudyData, axis: AxisInfo, effect: AxisEffect, summary: Summary) -> list[_Line]:
    numbers = dict(zip(axis.labels, axis.numbers or (), strict=True))
    hidden = {axis.name, *effect.together}
    others = [other.name for other in data.axes if other.name not in hidden and len(other.labels) > 1]
    found: dict[str, list[tuple[float, float, float | None]]] = {}
    for row in summary.rows:
        cell = row.cells[-1]
        if row.status != "finished" or cell.degenerate:
            continue
        if cell.value is not None and math.isfinite(cell.value):
            parts = [row.labels[other] for other in others]
            if row.name != row.cell:
                parts.append(row.encoder)
            found.setdefault(", ".join(parts), []).append(
                (numbers[row.labels[axis.name]], cell.value, cell.std)
            )
    return [_Line(name, tuple(sorted(places, key=lambda p: p[0]))) for name, places in found.items()]


def _values(summary: Summary, axis: str, label: str) -> list[float]:
    means = [
        row.cells[-1].value
        for row in summary.rows
        if row.status == "finished" and not row.cells[-1].degenerate and row.labels.get(axis) == label
    ]
    return [mean for mean in means if mean is not None and math.isfinite(mean)]
