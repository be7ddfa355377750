"""A study's cells in planes of two scores, such as alignment and uniformity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

import attrs

from sentbed_report.degenerate_scores import degenerate_of
from sentbed_report.figures.cell_scores import scores_after_training
from sentbed_report.figures.cell_styles import MOST_LINES, CellMarkers, listed, sentence_on_missing
from sentbed_report.figures.labels import label_text, name_point
from sentbed_report.figures.plot import Plot
from sentbed_report.figures.points import draw_points, plane_axes
from sentbed_report.formatting import count
from sentbed_report.score_planes import GeometryPanel, geometry_panels
from sentbed_report.study.study_data import CellInfo, StudyData

if TYPE_CHECKING:
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure


@attrs.frozen
class _Point:
    """A cell in a plane, or one of its encoders."""

    name: str
    cell: CellInfo
    x: float
    """Means over the seeds."""
    y: float
    degenerate: bool
    """Whether a score of the plane says nothing about the encoder, under any seed."""
    shade: float | None
    """Score of the task that colours the points; None without one."""


def geometry_plots(data: StudyData, name: str) -> tuple[Plot, ...]:
    """Draw each plane of two scores, one point a cell: the mean over its seeds."""
    encoders: dict[str, tuple[CellInfo, str]] = {}
    scores = []
    degenerate = set()
    for cell, run, score in scores_after_training(data):
        # Planes have a point an encoder: each encoder of each run is one of its own until the mean is taken.
        key = f"{cell.name}\n{run.seed}\n{score.encoder}"
        encoders[key] = cell, score.encoder
        scores.append(attrs.evolve(score, encoder=key))
        if score.axis in ("x", "y") and degenerate_of(score):
            degenerate.add((cell.name, score.encoder, score.task))
    shades = _scores_of_task(data, data.colour)
    plots = []
    for index, panel in enumerate(geometry_panels(scores)):
        places: dict[tuple[str, str], list[tuple[float, float]]] = {}
        cells = {}
        for place in panel.points:
            cell, encoder = encoders[place.encoder]
            cells[cell.name] = cell
            places.setdefault((cell.name, encoder), []).append((place.x, place.y))
        several = len({encoder for _, encoder in places}) > 1
        points = []
        for (cell_name, encoder), of_seeds in places.items():
            points.append(
                _Point(
                    f"{cell_name}: {encoder}" if several else cell_name,
                    cells[cell_name],
                    fmean(x for x, _ in of_seeds),
                    fmean(y for _, y in of_seeds),
                    (cell_name, encoder, panel.task) in degenerate,
                    shades.get((cell_name, encoder)),
                )
            )
        plots.append(_plot(data, panel, points, f"{name}{index}"))
    return tuple(plots)


def _scores_of_task(data: StudyData, task: str) -> dict[tuple[str, str], float]:
    """Return cell and encoder -> the score of a task, by its first metric, as the mean over its seeds."""
    first: dict[tuple[str, str, int], float] = {}
    for cell, run, score in scores_after_training(data):
        if score.task == task and not score.axis:
            first.setdefault((cell.name, score.encoder, run.seed), score.value)
    values: dict[tuple[str, str], list[float]] = {}
    for (cell_name, encoder, _), value in first.items():
        if math.isfinite(value):
            values.setdefault((cell_name, encoder), []).append(value)
    return {key: fmean(of_seeds) for key, of_seeds in values.items()}


def _plot(data: StudyData, panel: GeometryPanel, points: Sequence[_Point], name: str) -> Plot:
    markers = CellMarkers.of(data)
    scale, colours = _shades([point.shade for point in points])
    named = len(points) <= MOST_LINES

    def paint(figure: Figure) -> None:
        places = [(point.x, point.y) for point in points]
        axes = plane_axes(figure, panel.plane, panel.task, places, margin=0.15)
        middle = sum(axes.get_xlim()) / 2
        for point in points:
            style = markers.style(point.cell)
            tone = style.colour if point.shade is None else colours.get(point.shade, style.colour)
            draw_points(
                axes,
                point.x,
                point.y,
                tone,
                point.name,
                marker=style.marker,
                hollow=point.degenerate,
                ringed=point.cell.name == data.baseline,
                alpha=1 if named else 0.75,
            )
            if named:
                name_point(axes, point.name, (point.x, point.y), (-8 if point.x > middle else 8, 0))
        if scale is not None:
            bar = figure.colorbar(scale, ax=axes, label=label_text(data.colour), use_gridspec=False)
            bar.outline.set_visible(False)
        if not named:
            markers.draw_legend(figure, 3)

    captions = [panel.plane.better, f"{count(len(points), 'point')}, each a cell's mean over seeds."]
    if any(point.cell.name == data.baseline for point in points):
        captions.append("Ringed: the baseline.")
    hollow = sorted(point.name for point in points if point.degenerate)
    if hollow:
        captions.append(f"Hollow, degenerate: {listed(hollow)}.")
    if scale is not None:
        captions.append(f"Colour: the score of {data.colour}.")
    if not named:
        captions.append(f"Points are named where there are no more than {MOST_LINES}.")
    captions.append(sentence_on_missing(data, {point.cell.name for point in points}, "scores"))
    title = ", ".join(part for part in (panel.protocol, panel.task, panel.evaluator) if part)
    return Plot(name, title, " ".join(filter(None, captions)), 320 if named else 380, paint)


def _shades(values: Sequence[float | None]) -> tuple[ScalarMappable | None, dict[float, str]]:
    """Return the scale of scores, and the colour of each; no scale where fewer than two differ."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize, to_hex

    scores = {value for value in values if value is not None}
    if len(scores) < 2:
        return None, {}
    # Few steps, since each is an element of the page.
    viridis = colormaps["viridis"].resampled(24)
    low, high = min(scores), max(scores)
    scale = ScalarMappable(Normalize(low, high), viridis)
    return scale, {score: to_hex(viridis((score - low) / (high - low))) for score in scores}
