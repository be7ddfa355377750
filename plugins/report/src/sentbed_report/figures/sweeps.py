"""Figures of scores over coordinates, such as throughput by length, batch size, model size and platform.

An evaluator may measure the same quantity at several points. The protocol of each score then states the point:
`coordinates` lists the entries of the protocol that are its coordinates, as in
`{"length": 64, "batch": 512, "coordinates": ["length", "batch"]}`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from sentbed_report.figures.axis_formats import (
    label_numbers,
    plain_logarithms,
    spans_powers,
)
from sentbed_report.figures.cell_scores import is_number, scores_after_training
from sentbed_report.figures.cell_styles import MOST_LINES, sentence_on_missing
from sentbed_report.figures.curves import draw_curve
from sentbed_report.figures.labels import label_text, legend_above, task_and_metric
from sentbed_report.figures.plot import Plot
from sentbed_report.formatting import count
from sentbed_report.study.axis_columns import axis_column
from sentbed_report.study.study_data import AxisInfo, CellInfo, StudyData

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

_MOST_PANELS = 6
"""Maximum number of panels in a figure; if there are more, only the first are drawn."""

_COLUMNS = 2
"""Number of panels beside each other."""


@attrs.frozen
class _Variable:
    """A variable in which scores differ: an axis of the study, the encoder, or a coordinate."""

    name: str
    places: Mapping[float | str, float]
    """Value of the variable -> position of this value on the horizontal axis."""

    coordinate: bool
    """Whether the variable is a coordinate; its values are then numbers, otherwise labels."""
    numeric: bool
    """Whether the variable's values are numbers, or labels that stand for numbers. If so, lines connect the
    points."""

    def text(self, value: float | str) -> str:
        """Return a value as it is printed."""
        if isinstance(value, str):
            return value
        return f"{value:g}"


def sweep_plots(data: StudyData) -> list[Plot]:
    """Draw the scores that have coordinates: for each evaluator and metric, one plot over each variable."""
    import pandas

    rows = []
    for cell, _, score in scores_after_training(data):
        protocol = dict(score.evaluator_protocol)
        coordinates = _take_coordinates(protocol)
        if coordinates and math.isfinite(score.value):
            evaluator = " · ".join(dict.fromkeys((score.evaluator, score.protocol_id)))
            point = _point(cell, score.encoder, coordinates)
            rows.append(
                (evaluator, score.metric, cell.name, point, score.value, protocol)
            )
    columns = ["evaluator", "metric", "cell", "point", "value", "protocol"]
    frame = pandas.DataFrame(rows, columns=columns)

    plots = []
    for _, scores in frame.groupby(["evaluator", "metric"], sort=False):
        variables = _variables(data, pandas.DataFrame([*scores["point"]]))
        notes = [
            _different_protocols(scores["protocol"]),
            sentence_on_missing(data, set(scores["cell"]), "scores"),
        ]
        for across in variables:
            others = [variable for variable in variables if variable is not across]
            plots.append(_plot(scores, across, others, notes))
    return plots


def _point(
    cell: CellInfo, encoder: str, coordinates: Mapping[str, float]
) -> dict[str, float | str]:
    """Return where a score was measured: variable -> value, for the axes, the encoder and the coordinates."""
    point: dict[str, float | str] = {}
    for axis, label in cell.labels.items():
        point[axis_column(axis)] = label
    if not cell.labels:
        point["run"] = cell.name
    point["encoder"] = encoder
    for name, value in coordinates.items():
        variable = name
        if name in point:
            variable = f"coordinate {name}"
        point[variable] = value
    return point


def _take_coordinates(protocol: dict[str, Any]) -> dict[str, float]:
    """Remove the numeric coordinates from a score's protocol, and return them."""
    names = protocol.pop("coordinates", None)
    coordinates: dict[str, float] = {}
    if not isinstance(names, Sequence):
        return coordinates
    for name in names:
        if isinstance(name, str) and is_number(protocol.get(name)):
            coordinates[name] = float(protocol.pop(name))
    return coordinates


def _variables(data: StudyData, points: pandas.DataFrame) -> list[_Variable]:
    """Return the variables in which the scores differ: axes in their order, the encoder, coordinates.

    `points` has one row per score, with a column for each variable.
    """
    axes = {axis_column(axis.name): axis for axis in data.axes}
    variables = []
    for name, column in points.items():
        values = column.dropna().unique().tolist()
        if len(values) < 2:
            continue

        axis = axes.get(str(name), AxisInfo("", ()))
        coordinate = not any(isinstance(value, str) for value in values)
        numeric = coordinate or axis.numbers is not None
        if coordinate:
            places = {value: value for value in sorted(values)}
        elif axis.numbers is not None:
            numbers = dict(zip(axis.labels, axis.numbers, strict=True))
            places = {label: numbers[label] for label in values}
        else:
            places = {label: place for place, label in enumerate(values)}
        variables.append(_Variable(str(name), places, coordinate, numeric))
    return variables


def _plot(
    scores: pandas.DataFrame,
    across: _Variable,
    others: Sequence[_Variable],
    notes: Sequence[str],
) -> Plot:
    """Draw scores over the variable `across`; lines and panels show the `others`."""
    # Lines show an axis or the encoders rather than a coordinate; panels show the rest.
    of_lines = min(others, key=lambda variable: variable.coordinate, default=None)
    of_panels = [variable for variable in others if variable is not of_lines]
    points = _points(scores, across, of_lines, of_panels)
    evaluator, metric = scores[["evaluator", "metric"]].iloc[0]

    panels = [*points["panel"].unique()]
    shown = panels[:_MOST_PANELS]
    columns = min(_COLUMNS, len(shown))
    rows = math.ceil(len(shown) / columns)

    lines: list[float | str] = [""]
    if of_lines is not None:
        lines = [*of_lines.places]
    drawn = points[
        points["panel"].isin(shown) & points["line"].isin(lines[:MOST_LINES])
    ]

    def paint(figure: Figure) -> None:
        grid = figure.subplots(
            rows,
            columns,
            sharex=True,
            sharey=True,
            squeeze=False,
        )
        parts = grid.ravel()
        for part in parts[len(shown) :]:
            part.set_visible(False)

        for (panel, line), of_line in drawn.groupby(["panel", "line"], sort=False):
            axes = parts[shown.index(panel)]
            # Only the title is cut: panels are told apart by their whole names.
            axes.set_title(label_text(panel, 34), loc="left", fontsize="small")
            # Scores at the same place, such as those of several seeds, are averaged.
            means = of_line.groupby("place")["value"].mean()
            curve = means.reset_index().to_numpy()
            label = panel
            if of_lines is not None:
                label = f"{of_lines.name} {of_lines.text(line)}"
            draw_curve(axes, curve, lines.index(line), label, across.numeric)

        positive = drawn["value"][drawn["value"] > 0]
        if spans_powers(positive.tolist()):
            parts[0].set_yscale("log")
            plain_logarithms(parts[0].yaxis)
        ticks = list(map(across.text, across.places))
        label_numbers(parts[0], [*across.places.values()], ticks)
        parts[0].margins(x=0.1, y=0.12)

        score = label_text(task_and_metric(evaluator, metric))
        figure.supxlabel(label_text(across.name), fontsize="medium")
        figure.supylabel(score, fontsize="medium")
        legend_above(figure, 4)

    captions = []
    if len(panels) > _MOST_PANELS:
        captions.append(
            f"The first {_MOST_PANELS} of {count(len(panels), 'panel')} are drawn."
        )
    if len(lines) > MOST_LINES:
        captions.append(f"The first {MOST_LINES} of {len(lines)} lines are drawn.")
    title = f"{evaluator}, {metric} by {across.name}"
    height = 60 + 170 * rows + 17 * math.ceil(min(len(lines), MOST_LINES) / 4)
    return Plot(title, [*captions, *notes], height, paint)


def _points(
    scores: pandas.DataFrame,
    across: _Variable,
    of_lines: _Variable | None,
    of_panels: Sequence[_Variable],
) -> pandas.DataFrame:
    """Return `panel`, `line`, `place` and `value` of the scores that can be drawn.

    `place` is the position on the horizontal axis. There is a line for each value of the variable `of_lines`, and
    a panel for each combination of the values of the variables `of_panels`.
    """
    import pandas

    rows = []
    for point, value in zip(scores["point"], scores["value"], strict=True):
        if across.name not in point:
            continue

        line = ""
        if of_lines is not None:
            line = point.get(of_lines.name)
        texts = []
        for variable in of_panels:
            text = variable.text(point.get(variable.name, ""))
            if variable.coordinate:
                text = f"{variable.name} {text}"
            texts.append(text)
        rows.append((", ".join(texts), line, across.places[point[across.name]], value))
    return pandas.DataFrame(rows, columns=["panel", "line", "place", "value"])


def _different_protocols(protocols: pandas.Series) -> str:
    """Return a sentence on the entries in which protocols differ; it is empty if none differ."""
    import pandas

    settings = pandas.DataFrame([*protocols]).map(repr).nunique()
    unlike = settings.index[settings > 1]
    if unlike.empty:
        return ""
    return f"Not all are measured alike: their protocols differ in {', '.join(unlike)}."
