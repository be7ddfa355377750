"""Plots of scores that carry coordinates, such as throughput by length, batch, model size and platform.

An evaluator that measures one thing at several places names them in the protocol of each score: `coordinates`
lists the entries that are its place, as `{"length": 64, "batch": 512, "coordinates": ["length", "batch"]}`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
from sentbed.protocols import START, Score

from sentbed_report.formatting import count, number
from sentbed_report.matplotlib_svg import Drawing, fit_legend, label_text
from sentbed_report.run_plots import WIDTH, Plot
from sentbed_report.study.study_data import CellInfo, StudyData
from sentbed_report.study_page.line_styles import LINES, spans_powers, tone, with_sizes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANELS = 6
"""Maximum number of panels in a plot."""

_COLUMNS = 2
_TICKS = 8

_Place: TypeAlias = Mapping[str, float | str]
"""Variable -> where on it a score stands: the number of a coordinate, or the label of an axis."""


@attrs.frozen
class _Point:
    """One score."""

    place: _Place
    value: float
    protocol: Mapping[str, object]
    """What is no coordinate."""


@attrs.frozen
class _Variable:
    """What scores differ in: an axis of the study, the encoder, or a coordinate."""

    name: str
    values: tuple[float | str, ...]
    numbers: Mapping[float | str, float]
    """Value -> where it is drawn."""
    coordinate: bool
    numeric: bool
    """Whether its values are numbers, or labels that stand for numbers, so that lines mean something."""

    def text(self, value: float | str) -> str:
        """Return a value as it is printed."""
        return value if isinstance(value, str) else f"{value:g}"


def sweep_plots(data: StudyData, name: str) -> tuple[Plot, ...]:
    """Draw scores with coordinates over each coordinate and each axis, a line per label of another axis."""
    plots: list[Plot] = []
    for (evaluator, metric), points in _groups(data).items():
        variables = _variables(data, points)
        for variable in variables:
            others = [other for other in variables if other is not variable]
            plots.append(
                _plot(f"{evaluator}, {metric}", metric, variable, others, points, f"{name}{len(plots)}")
            )
    return tuple(plots)


def _groups(data: StudyData) -> dict[tuple[str, str], list[_Point]]:
    """Return the scores with coordinates, by evaluator (with its protocol's name) and metric."""
    groups: dict[tuple[str, str], list[_Point]] = {}
    for cell in data.cells:
        for run in cell.runs:
            for score in run.scores:
                coordinates = _coordinates(score)
                if coordinates and math.isfinite(score.value) and not score.encoder.endswith(START):
                    key = " · ".join(dict.fromkeys((score.evaluator, score.protocol_id))), score.metric
                    groups.setdefault(key, []).append(_point(cell, score, coordinates))
    return groups


def _coordinates(score: Score) -> dict[str, float]:
    protocol = score.evaluator_protocol
    names = protocol.get("coordinates", ())
    found = {name: protocol.get(name) for name in names} if isinstance(names, Sequence) else {}
    return {
        str(name): float(value)
        for name, value in found.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _point(cell: CellInfo, score: Score, coordinates: Mapping[str, float]) -> _Point:
    own = {"coordinates", *coordinates}
    rest = {name: value for name, value in score.evaluator_protocol.items() if name not in own}
    place: dict[str, float | str] = {
        **(cell.labels or {"run": cell.name}),
        "encoder": score.encoder,
        **coordinates,
    }
    return _Point(place, score.value, rest)


def _variables(data: StudyData, points: Sequence[_Point]) -> list[_Variable]:
    """Return what the points differ in: axes first, in their order, then the encoder, then coordinates."""
    axes = {axis.name: with_sizes(axis) for axis in data.axes}
    found = []
    for name in dict.fromkeys(name for point in points for name in point.place):
        values: Sequence[float | str] = list(dict.fromkeys(p.place[name] for p in points if name in p.place))
        numbers: dict[float | str, float] = {value: float(place) for place, value in enumerate(values)}
        numeric = True
        if coordinate := not any(isinstance(value, str) for value in values):
            values = sorted(values)
            numbers = {value: float(value) for value in values}
        elif name in axes and (given := axes[name].numbers) is not None:
            known = dict(zip(axes[name].labels, given, strict=True))
            numbers = {value: known[str(value)] for value in values}
        else:
            numeric = False
        if len(values) > 1:
            found.append(_Variable(name, tuple(values), numbers, coordinate, numeric))
    return found


def _plot(
    subject: str,
    metric: str,
    across: _Variable,
    others: Sequence[_Variable],
    points: Sequence[_Point],
    name: str,
) -> Plot:
    lines = next((other for other in others if not other.coordinate), others[0] if others else None)
    beside = [other for other in others if other is not lines]
    panels: dict[tuple[float | str, ...], list[_Point]] = {}
    for point in points:
        if across.name in point.place:
            panels.setdefault(tuple(point.place.get(one.name, "") for one in beside), []).append(point)
    shown = list(panels.items())[:_PANELS]
    columns = min(_COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    named = lines.values[:LINES] if lines is not None else ("",)

    def paint(figure: Figure) -> None:
        parts = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        flat = list(parts.flat)
        for axes, (combination, found) in zip(flat, shown, strict=False):
            for index, label in enumerate(named):
                if places := _line(across, found, lines, label):
                    look = tone(index)
                    axes.plot(
                        *zip(*places, strict=True),
                        color=look.colour,
                        linestyle=look.style if across.numeric else "",
                        marker=look.marker,
                        markersize=4.5,
                        linewidth=1.6,
                        label=label_text("" if lines is None else f"{lines.name} {lines.text(label)}", 28),
                    )
            axes.set_title(_combined(beside, combination), loc="left", fontsize="small")
        for axes in flat[len(shown) :]:
            axes.set_visible(False)
        _scale(flat[0], across, [value for _, found in shown for p in found if (value := p.value) > 0])
        figure.supxlabel(label_text(across.name), fontsize="medium")
        figure.supylabel(label_text(metric), fontsize="medium")
        handles = {
            text: handle
            for axes in flat
            for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        if len(handles) > 1:
            entries: dict[str, Any] = {"handles": [*handles.values()], "labels": [*handles]}
            fit_legend(
                figure,
                min(4, len(handles)),
                lambda number: figure.legend(
                    **entries, frameon=False, loc="outside upper left", ncols=number
                ),
            )

    told = "; ".join(
        f"{_combined(beside, combination)} {across.text(value)}: {number(fmean(values))}".strip()
        for combination, found in shown
        for value in across.values
        if (values := [point.value for point in found if point.place.get(across.name) == value])
    )
    title = f"{subject} by {across.name}"
    label = label_text(f"{title}. {told}", 400)
    caption = " ".join(_caption(points, len(panels), len(shown), lines))
    height = 60 + 170 * rows + 17 * math.ceil(len(named) / 4)
    return Plot(Drawing(name, label, WIDTH, height, paint), title, caption)


def _line(
    across: _Variable, points: Sequence[_Point], lines: _Variable | None, label: float | str
) -> list[tuple[float, float]]:
    """Return the places of one line: the mean of the points that share one, which seeds do."""
    found: dict[float, list[float]] = {}
    for point in points:
        if lines is None or point.place.get(lines.name) == label:
            found.setdefault(across.numbers[point.place[across.name]], []).append(point.value)
    return sorted((x, fmean(values)) for x, values in found.items())


def _combined(variables: Sequence[_Variable], values: Sequence[float | str]) -> str:
    pairs = zip(variables, values, strict=True)
    told = (f"{one.name} {one.text(value)}" if one.coordinate else one.text(value) for one, value in pairs)
    return label_text(", ".join(told), 34)


def _scale(axes: Axes, across: _Variable, values: Sequence[float]) -> None:
    from matplotlib.ticker import NullLocator

    if spans_powers(values):
        axes.set_yscale("log")
        # Its own formatter writes mathematics, which pages do not read.
        axes.yaxis.set_major_formatter("{x:,g}")
        axes.yaxis.set_minor_locator(NullLocator())
    places = [across.numbers[value] for value in across.values]
    if spans_powers(places):
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    if len(places) <= _TICKS:
        axes.set_xticks(places, [label_text(across.text(value), 12) for value in across.values])
    axes.margins(x=0.1, y=0.12)


def _caption(
    points: Sequence[_Point],
    panels: int,
    shown: int,
    lines: _Variable | None,
) -> Iterator[str]:
    if shown < panels:
        yield f"The first {shown} of {count(panels, 'panel')} are drawn."
    if lines is not None and len(lines.values) > LINES:
        yield f"The first {LINES} of {len(lines.values)} lines are drawn."
    names = dict.fromkeys(name for point in points for name in point.protocol)
    unlike = [name for name in names if len({repr(point.protocol.get(name)) for point in points}) > 1]
    if unlike:
        yield f"Not all are measured alike: their protocols differ in {', '.join(unlike)}."
