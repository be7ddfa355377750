"""Scores that carry coordinates, such as throughput by length, batch, model size and platform.

An evaluator that measures one thing at several places names them in the protocol of each score: `coordinates`
lists the entries that are its place, as `{"length": 64, "batch": 512, "coordinates": ["length", "batch"]}`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
from sentbed.protocols import Score

from sentbed_report.figures.axis_formats import label_numbers, plain_logarithms, spans_powers
from sentbed_report.figures.cell_scores import is_number, scores_after_training
from sentbed_report.figures.cell_styles import MOST_LINES, line_style, sentence_on_missing
from sentbed_report.figures.labels import label_text, legend_above, short_name, task_and_metric
from sentbed_report.figures.number_lines import with_sizes
from sentbed_report.figures.plot import Plot
from sentbed_report.formatting import count
from sentbed_report.study.study_data import AxisInfo, StudyData

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

_MOST_PANELS = 6
"""Maximum number of panels in a figure."""

_COLUMNS = 2


@attrs.frozen
class _Sweep:
    """Scores of one evaluator and metric."""

    evaluator: str
    """With the name of its protocol."""
    metric: str
    places: list[Mapping[str, float | str]] = attrs.field(factory=list, eq=False)
    """Of each score: the number of a coordinate, or the label of an axis."""
    values: list[float] = attrs.field(factory=list, eq=False)
    protocols: list[Mapping[str, str]] = attrs.field(factory=list, eq=False)
    """What is no coordinate in its protocol, as text."""
    cells: set[str] = attrs.field(factory=set, eq=False)


@attrs.frozen
class _Variable:
    """What scores differ in: an axis of the study, the encoder, or a coordinate."""

    name: str
    places: Mapping[float | str, float]
    """Value -> where it is drawn."""
    coordinate: bool
    """Whether its values are numbers, and no labels."""
    numeric: bool
    """Whether its values are numbers, or labels that stand for numbers, so that lines mean something."""

    def text(self, value: float | str) -> str:
        """Return a value as it is printed."""
        return value if isinstance(value, str) else f"{value:g}"


def sweep_plots(data: StudyData, name: str) -> list[Plot]:
    """Draw scores with coordinates over each coordinate and each axis, a line per label of another axis."""
    plots: list[Plot] = []
    for sweep in _sweeps(data):
        variables = _variables(data, sweep)
        missing = sentence_on_missing(data, sweep.cells, "scores")
        for across in variables:
            others = [variable for variable in variables if variable is not across]
            plots.append(_plot(sweep, across, others, missing, f"{name}{len(plots)}"))
    return plots


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
        sweep.places.append({**labels, "encoder": score.encoder, **coordinates})
        sweep.values.append(score.value)
        protocol = {entry: repr(setting) for entry, setting in score.evaluator_protocol.items()}
        for entry in ("coordinates", *coordinates):
            del protocol[entry]
        sweep.protocols.append(protocol)
        sweep.cells.add(cell.name)
    return [*sweeps.values()]


def _coordinates(score: Score) -> dict[str, float]:
    """Return the coordinates of a score, those left out that are no numbers."""
    protocol = score.evaluator_protocol
    names = protocol.get("coordinates")
    if not isinstance(names, Sequence):
        return {}
    return {name: float(protocol[name]) for name in names if is_number(protocol.get(name))}


def _variables(data: StudyData, sweep: _Sweep) -> list[_Variable]:
    """Return what the scores differ in: axes first, in their order, then the encoder, then coordinates."""
    import pandas

    axes = {axis.name: with_sizes(axis) for axis in data.axes}
    variables = []
    for name, column in pandas.DataFrame(sweep.places).items():
        values = column.dropna().unique().tolist()
        if len(values) < 2:
            continue
        axis = axes.get(str(name), AxisInfo("", ()))
        coordinate = not any(isinstance(value, str) for value in values)
        if coordinate:
            places = {value: value for value in sorted(values)}
        elif axis.numbers is not None:
            numbers = dict(zip(axis.labels, axis.numbers, strict=True))
            places = {value: numbers[value] for value in values}
        else:
            places = {value: place for place, value in enumerate(values)}
        variables.append(_Variable(str(name), places, coordinate, coordinate or axis.numbers is not None))
    return variables


def _plot(sweep: _Sweep, across: _Variable, others: Sequence[_Variable], missing: str, name: str) -> Plot:
    by_label = [variable for variable in others if not variable.coordinate]
    lines = next(iter([*by_label, *others]), None)
    frame = _points(sweep, across, lines, [variable for variable in others if variable is not lines])
    panels = [*frame["panel"].unique()]
    shown = panels[:_MOST_PANELS]
    names = [""]
    if lines is not None:
        names = [_line_name(lines, value) for value in lines.places]
    columns = min(_COLUMNS, len(shown))
    rows = math.ceil(len(shown) / columns)
    drawn = frame[frame["panel"].isin(shown) & frame["line"].isin(names[:MOST_LINES])]

    def paint(figure: Figure) -> None:
        parts = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
        for part in parts[len(shown) :]:
            part.set_visible(False)
        for (panel, line), points in drawn.groupby(["panel", "line"], sort=False):
            axes = parts[shown.index(panel)]
            axes.set_title(panel, loc="left", fontsize="small")
            # Of the scores that share a place, which those of seeds do.
            means = points.groupby("place")["value"].mean()
            style = line_style(names.index(line))
            if not across.numeric:
                style["linestyle"] = ""
            axes.plot(means.index, means, **style, markersize=4.5, linewidth=1.6, label=line or panel)
        if spans_powers(drawn.loc[drawn["value"] > 0, "value"].tolist()):
            parts[0].set_yscale("log")
            plain_logarithms(parts[0].yaxis)
        ticks = [across.text(value) for value in across.places]
        label_numbers(parts[0], [*across.places.values()], ticks)
        parts[0].margins(x=0.1, y=0.12)
        figure.supxlabel(label_text(across.name), fontsize="medium")
        figure.supylabel(label_text(task_and_metric(sweep.evaluator, sweep.metric)), fontsize="medium")
        legend_above(figure, 4)

    captions = []
    if len(panels) > _MOST_PANELS:
        captions.append(f"The first {_MOST_PANELS} of {count(len(panels), 'panel')} are drawn.")
    if len(names) > MOST_LINES:
        captions.append(f"The first {MOST_LINES} of {len(names)} lines are drawn.")
    captions += [_different_protocols(sweep.protocols), missing]
    title = f"{sweep.evaluator}, {sweep.metric} by {across.name}"
    height = 60 + 170 * rows + 17 * math.ceil(min(len(names), MOST_LINES) / 4)
    return Plot(name, title, " ".join(filter(None, captions)), height, paint)


def _points(
    sweep: _Sweep,
    across: _Variable,
    lines: _Variable | None,
    beside: Sequence[_Variable],
) -> pandas.DataFrame:
    """Return `panel`, `line`, `place` and `value` of the scores that have a place.

    Panels differ in the variables `beside`, which are neither the axis nor the lines.
    """
    import pandas

    rows = []
    for place, value in zip(sweep.places, sweep.values, strict=True):
        if across.name not in place:
            continue
        line = ""
        if lines is not None:
            line = _line_name(lines, place.get(lines.name, ""))
        parts = []
        for variable in beside:
            text = variable.text(place.get(variable.name, ""))
            parts.append(f"{variable.name} {text}" if variable.coordinate else text)
        panel = label_text(", ".join(parts), 34)
        rows.append((panel, line, across.places[place[across.name]], value))
    return pandas.DataFrame(rows, columns=["panel", "line", "place", "value"])


def _line_name(lines: _Variable, value: float | str) -> str:
    return short_name(f"{lines.name} {lines.text(value)}")


def _different_protocols(protocols: Sequence[Mapping[str, str]]) -> str:
    """Return a sentence on the entries in which protocols differ; empty if in none."""
    import pandas

    settings = pandas.DataFrame(protocols).nunique(dropna=False)
    unlike = settings.index[settings > 1]
    if unlike.empty:
        return ""
    return f"Not all are measured alike: their protocols differ in {', '.join(unlike)}."
