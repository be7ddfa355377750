"""Scores that carry coordinates, such as throughput by length, batch, model size and platform.

An evaluator that measures one thing at several places names them in the protocol of each score: `coordinates`
lists the entries that are its place, as `{"length": 64, "batch": 512, "coordinates": ["length", "batch"]}`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

import attrs
from sentbed.protocols import Score

from sentbed_report.figures.axis_formats import label_numbers, plain_logarithms, spans_powers
from sentbed_report.figures.cell_scores import is_number, scores_after_training
from sentbed_report.figures.cell_styles import MOST_LINES, LineStyle, line_style, sentence_on_missing
from sentbed_report.figures.labels import label_text, legend_above, short_name, task_and_metric
from sentbed_report.figures.number_lines import with_sizes
from sentbed_report.figures.plot import Plot
from sentbed_report.formatting import count
from sentbed_report.study.study_data import StudyData

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_PANELS = 6
"""Maximum number of panels in a figure."""

_COLUMNS = 2


@attrs.frozen
class _Point:
    """One score."""

    place: Mapping[str, float | str]
    """Variable -> the number of a coordinate, or the label of an axis."""
    value: float
    protocol: Mapping[str, object]
    """What is no coordinate in its protocol."""


@attrs.frozen
class _Variable:
    """What scores differ in: an axis of the study, the encoder, or a coordinate."""

    name: str
    places: Mapping[float | str, float]
    """Value -> where it is drawn."""
    numeric: bool
    """Whether its values are numbers, or labels that stand for numbers, so that lines mean something."""

    @property
    def coordinate(self) -> bool:
        """Whether its values are numbers, and no labels."""
        return not any(isinstance(value, str) for value in self.places)

    def text(self, value: float | str) -> str:
        """Return a value as it is printed."""
        return value if isinstance(value, str) else f"{value:g}"


@attrs.frozen
class _Sweep:
    """Scores of one evaluator and metric."""

    evaluator: str
    """With the name of its protocol."""
    metric: str
    points: list[_Point] = attrs.field(factory=list, eq=False)
    cells: set[str] = attrs.field(factory=set, eq=False)


def sweep_plots(data: StudyData, name: str) -> tuple[Plot, ...]:
    """Draw scores with coordinates over each coordinate and each axis, a line per label of another axis."""
    plots: list[Plot] = []
    for sweep in _sweeps(data):
        variables = _variables(data, sweep.points)
        missing = sentence_on_missing(data, sweep.cells, "scores")
        for across in variables:
            others = [variable for variable in variables if variable is not across]
            plots.append(_plot(sweep, across, others, missing, f"{name}{len(plots)}"))
    return tuple(plots)


def _sweeps(data: StudyData) -> list[_Sweep]:
    """Return the scores with coordinates, by evaluator and metric."""
    sweeps: dict[tuple[str, str], _Sweep] = {}
    for cell, _, score in scores_after_training(data):
        coordinates = _coordinates(score)
        if not coordinates or not math.isfinite(score.value):
            continue
        evaluator = " · ".join(dict.fromkeys((score.evaluator, score.protocol_id)))
        sweep = sweeps.setdefault((evaluator, score.metric), _Sweep(evaluator, score.metric))
        labels = cell.labels or {"run": cell.name}
        rest = dict(score.evaluator_protocol)
        for entry in ("coordinates", *coordinates):
            del rest[entry]
        sweep.points.append(_Point({**labels, "encoder": score.encoder, **coordinates}, score.value, rest))
        sweep.cells.add(cell.name)
    return list(sweeps.values())


def _coordinates(score: Score) -> dict[str, float]:
    """Return the coordinates of a score, those left out that are no numbers."""
    protocol = score.evaluator_protocol
    names = protocol.get("coordinates")
    if not isinstance(names, Sequence):
        return {}
    return {name: float(protocol[name]) for name in names if is_number(protocol.get(name))}


def _variables(data: StudyData, points: Sequence[_Point]) -> list[_Variable]:
    """Return what the points differ in: axes first, in their order, then the encoder, then coordinates."""
    values: dict[str, dict[float | str, None]] = {}
    for point in points:
        for name, value in point.place.items():
            values.setdefault(name, {})[value] = None
    axes = {axis.name: with_sizes(axis) for axis in data.axes}
    variables = []
    for name, different in values.items():
        axis = axes.get(name)
        numbers: dict[float | str, float] = {value: place for place, value in enumerate(different)}
        numeric = False
        if axis is not None and axis.numbers is not None:
            by_label = dict(zip(axis.labels, axis.numbers, strict=True))
            numbers = {value: by_label[str(value)] for value in different}
            numeric = True
        elif not any(isinstance(value, str) for value in different):
            numbers = {value: float(value) for value in sorted(different)}
            numeric = True
        if len(different) > 1:
            variables.append(_Variable(name, numbers, numeric))
    return variables


def _plot(sweep: _Sweep, across: _Variable, others: Sequence[_Variable], missing: str, name: str) -> Plot:
    lines = next((variable for variable in others if not variable.coordinate), None)
    if lines is None and others:
        lines = others[0]
    panels = _panels(sweep.points, across, [variable for variable in others if variable is not lines])
    shown = dict(list(panels.items())[:_MOST_PANELS])
    columns = min(_COLUMNS, len(shown))
    rows = math.ceil(len(shown) / columns)
    labels = [""] if lines is None else list(lines.places)[:MOST_LINES]

    def paint(figure: Figure) -> None:
        parts = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
        handles: dict[str, Artist] = {}
        for axes, (title, points) in zip(parts, shown.items(), strict=False):
            for index, label in enumerate(labels):
                text = "" if lines is None else short_name(f"{lines.name} {lines.text(label)}")
                on_line = [point for point in points if lines is None or point.place.get(lines.name) == label]
                if on_line:
                    handles[text] = _draw_line(axes, across, on_line, line_style(index), text)
            axes.set_title(title, loc="left", fontsize="small")
        for axes in parts[len(shown) :]:
            axes.set_visible(False)
        _scale(parts[0], across, [point.value for points in shown.values() for point in points])
        figure.supxlabel(label_text(across.name), fontsize="medium")
        figure.supylabel(label_text(task_and_metric(sweep.evaluator, sweep.metric)), fontsize="medium")
        if len(handles) > 1:
            legend_above(figure, min(4, len(handles)), list(handles.values()))

    captions = []
    if len(panels) > _MOST_PANELS:
        captions.append(f"The first {_MOST_PANELS} of {count(len(panels), 'panel')} are drawn.")
    if lines is not None and len(lines.places) > MOST_LINES:
        captions.append(f"The first {MOST_LINES} of {len(lines.places)} lines are drawn.")
    captions += [_different_protocols(sweep.points), missing]
    return Plot(
        name,
        f"{sweep.evaluator}, {sweep.metric} by {across.name}",
        " ".join(filter(None, captions)),
        60 + 170 * rows + 17 * math.ceil(len(labels) / 4),
        paint,
    )


def _panels(
    points: Sequence[_Point],
    across: _Variable,
    beside: Sequence[_Variable],
) -> dict[str, list[_Point]]:
    """Return the points by what they have of the variables that are neither the axis nor the lines."""
    panels: dict[str, list[_Point]] = {}
    for point in points:
        if across.name not in point.place:
            continue
        parts = []
        for variable in beside:
            text = variable.text(point.place.get(variable.name, ""))
            parts.append(f"{variable.name} {text}" if variable.coordinate else text)
        panels.setdefault(label_text(", ".join(parts), 34), []).append(point)
    return panels


def _draw_line(
    axes: Axes,
    across: _Variable,
    points: Sequence[_Point],
    style: LineStyle,
    label: str,
) -> Artist:
    """Draw the mean of the points that share a place, which seeds do."""
    values: dict[float, list[float]] = {}
    for point in points:
        values.setdefault(across.places[point.place[across.name]], []).append(point.value)
    means = {place: fmean(values[place]) for place in sorted(values)}
    (line,) = axes.plot(
        list(means),
        list(means.values()),
        color=style.colour,
        linestyle=style.dashes if across.numeric else "",
        marker=style.marker,
        markersize=4.5,
        linewidth=1.6,
        label=label or axes.get_title(loc="left"),
    )
    return line


def _scale(axes: Axes, across: _Variable, values: Sequence[float]) -> None:
    if spans_powers([value for value in values if value > 0]):
        axes.set_yscale("log")
        plain_logarithms(axes.yaxis)
    label_numbers(axes, list(across.places.values()), [across.text(value) for value in across.places])
    axes.margins(x=0.1, y=0.12)


def _different_protocols(points: Sequence[_Point]) -> str:
    """Return a sentence on the entries in which the protocols of points differ; empty if in none."""
    values: dict[str, set[str]] = {}
    for entry in dict.fromkeys(entry for point in points for entry in point.protocol):
        values[entry] = {repr(point.protocol.get(entry)) for point in points}
    unlike = [entry for entry, different in values.items() if len(different) > 1]
    if not unlike:
        return ""
    return f"Not all are measured alike: their protocols differ in {', '.join(unlike)}."
