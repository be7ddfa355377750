"""Plots of a study that need no table: learning curves, planes of two scores, demonstrations."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

import attrs
from sentbed.helpers import score_digits
from sentbed.protocols import START, Score

from sentbed_report.curve_smoothing import finite, padded_range, thinned
from sentbed_report.degenerate_scores import degenerate_of
from sentbed_report.formatting import count, number
from sentbed_report.matplotlib_svg import Drawing, colour, label_text, legend_above
from sentbed_report.run_plots import WIDTH, Plot, step_axis
from sentbed_report.score_planes import Plane, geometry_panels
from sentbed_report.study.found_demonstrations import search_of
from sentbed_report.study.study_data import CellInfo, StudyData
from sentbed_report.study_page.line_styles import (
    LINES,
    TONES,
    chosen,
    group_tones,
    left_out,
    tone,
    tone_legend,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

_Points = list[tuple[float, float]]


def learning_curves(data: StudyData, name: str) -> tuple[Plot, ...]:
    """Draw the validations of each stage, one line a cell: the mean over its seeds."""
    panels: dict[tuple[str, str], dict[str, list[_Points]]] = {}
    for cell in data.cells:
        for run in cell.runs:
            for stage in mappings(run.record.get("stages")):
                if points := _pairs(stage.get("validations")):
                    key = str(stage.get("name", "")), str(stage.get("metric", "validation"))
                    panels.setdefault(key, {}).setdefault(cell.name, []).append(points)
    return tuple(
        plot
        for index, ((stage, metric), cells) in enumerate(panels.items())
        if (plot := _curves(stage, metric, cells, data, f"{name}{index}"))
    )


def geometry_plots(data: StudyData, name: str) -> tuple[Plot, ...]:
    """Draw each plane of two scores, one point a cell: the mean over its seeds."""
    cells: dict[str, tuple[CellInfo, str]] = {}
    scores: list[Score] = []
    for cell in data.cells:
        for run in cell.runs:
            for score in run.scores:
                if not score.encoder.endswith(START):
                    key = f"{cell.name}\n{run.seed}\n{score.encoder}"
                    cells[key] = cell, score.encoder
                    scores.append(attrs.evolve(score, encoder=key))
    plots = []
    for index, panel in enumerate(geometry_panels(scores)):
        found: dict[tuple[str, str], tuple[CellInfo, _Points]] = {}
        for point in panel.points:
            cell, encoder = cells[point.encoder]
            place = found.setdefault((cell.name, encoder), (cell, []))
            place[1].append((point.x, point.y))
        title = ", ".join(part for part in (panel.protocol, panel.task, panel.evaluator) if part)
        several = len({encoder for _, encoder in found}) > 1
        points = [
            (f"{cell.name}: {encoder}" if several else cell.name, cell, _mean(places))
            for (_, encoder), (cell, places) in found.items()
        ]
        tints = [_tint(cell, encoder, data.colour) for (_, encoder), (cell, _) in found.items()]
        hollow = frozenset(
            label
            for (label, cell, _), (_, encoder) in zip(points, found, strict=True)
            if _is_degenerate(cell, encoder, panel.task)
        )
        plots.append(_geometry(panel.plane, title, points, data, f"{name}{index}", tints, hollow))
    return tuple(plots)


def _is_degenerate(cell: CellInfo, encoder: str, task: str) -> bool:
    """Whether a score of the plane says nothing about the encoder, under any seed."""
    for run in cell.runs:
        for score in run.scores:
            in_plane = (score.encoder, score.task) == (encoder, task) and score.axis in ("x", "y")
            if in_plane and degenerate_of(score):
                return True
    return False


def _tint(cell: CellInfo, encoder: str, task: str) -> float | None:
    """Return an encoder's score of a task, by its first metric, as the mean over its seeds; None without."""
    values = []
    for run in cell.runs:
        own = [one for one in run.scores if (one.encoder, one.task, one.axis) == (encoder, task, "")]
        values += [one.value for one in own[:1] if math.isfinite(one.value)]
    return fmean(values) if values else None


def ranking_plot(data: StudyData, name: str) -> Plot | None:
    """Draw how the scores of demonstrations are distributed, one row a cell: every seed's candidates."""
    found: dict[str, tuple[list[float], list[float]]] = {}
    evaluators: dict[str, None] = {}
    for cell in data.cells:
        for search in filter(None, map(search_of, cell.runs)):
            evaluators[search.evaluator] = None
            scores, without = found.setdefault(cell.name, ([], []))
            scores += search.scores
            without += [] if search.baseline is None else [search.baseline]
    if not found:
        return None
    shown = chosen({cell: max(scores) for cell, (scores, _) in found.items()}, data.baseline)
    places = score_digits(score for scores, _ in found.values() for score in scores)

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for row, cell in enumerate(shown):
            scores, without = found[cell]
            # Spread a little, by position: the same picture every time.
            lift = [row + 0.22 * math.sin(2.4 * i) for i in range(len(scores))]
            harm = [bool(without) and score < fmean(without) for score in scores]
            for shade, which in ((colour(f"c{row % TONES}"), False), (colour("muted"), True)):
                x = [score for score, bad in zip(scores, harm, strict=True) if bad == which]
                y = [place for place, bad in zip(lift, harm, strict=True) if bad == which]
                axes.plot(x, y, "o", color=shade, markersize=3, alpha=0.45, mew=0)
            axes.vlines(median(scores), row - 0.34, row + 0.34, color=colour("fg"), linewidth=1.8)
            if without:
                axes.vlines(
                    fmean(without),
                    row - 0.34,
                    row + 0.34,
                    color=colour("fg"),
                    linewidth=1.4,
                    linestyle="dotted",
                )
        name_rows(axes, shown)
        axes.set_xlabel(label_text(", ".join(filter(None, evaluators)) or "score"))

    told = "; ".join(
        f"{cell}: {number(min(found[cell][0]), places)} to {number(max(found[cell][0]), places)}"
        for cell in shown
    )
    caption = "A dot a candidate, grey where it harms; bar: their median; dotted: without a demonstration."
    rule = left_out(len(shown), len(found), "score of a candidate")
    label = label_text(f"Scores of the demonstrations by cell. {told}", 400)
    height = 90 + 32 * len(shown)
    return Plot(
        Drawing(name, label, WIDTH, height, paint), "Scores of demonstrations", f"{caption} {rule}".strip()
    )


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Make the vertical axis one of names, the first above."""
    axes.set_yticks(range(len(names)), [label_text(name, 28) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")


def _curves(
    stage: str, metric: str, cells: Mapping[str, Sequence[_Points]], data: StudyData, name: str
) -> Plot | None:
    curves = {cell: mean for cell, runs in cells.items() if (mean := _mean_curve(runs))}
    if not curves:
        return None
    names = chosen({cell: max(y for _, y in points) for cell, points in curves.items()}, data.baseline)
    shown = [(cell, *thinned(curves[cell])) for cell in names]

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for index, (cell, x, y) in enumerate(shown):
            look = tone(index)
            axes.plot(
                x,
                y,
                color=look.colour,
                linestyle=look.style,
                linewidth=2.4 if cell == data.baseline else 1.4,
                marker="o" if len(x) == 1 else "",
                label=label_text(cell, 28),
            )
        axes.set_ylabel(label_text(metric))
        axes.margins(y=0.08)
        step_axis(axes)
        if len(shown) > 1:
            legend_above(axes, 2)

    ends = "; ".join(f"{cell}: {number(y[-1])} at step {x[-1]:,.0f}" for cell, x, y in shown)
    label = label_text(f"{metric} of stage {stage} over the steps, by cell. {ends}", 400)
    parts = []
    if any(len(runs) > 1 for runs in cells.values()):
        parts.append("Mean over the seeds, at the steps that all of them reached.")
    if data.baseline in names:
        parts.append("Thick: the baseline.")
    parts.append(left_out(len(shown), len(curves), "validation score"))
    height = 270 + 17 * math.ceil(len(shown) / 2)
    title = f"Validation in stage {stage}" if stage else "Validation"
    return Plot(Drawing(name, label, WIDTH, height, paint), title, " ".join(filter(None, parts)))


def _geometry(
    plane: Plane,
    title: str,
    points: Sequence[tuple[str, CellInfo, tuple[float, float]]],
    data: StudyData,
    name: str,
    tints: Sequence[float | None],
    hollow: Collection[str],
) -> Plot:
    axes_told, looks = group_tones(data)
    shades = _shades(tints)
    low, high = padded_range((place[0] for _, _, place in points), margin=0.15)
    named = len(points) <= LINES

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        axes.set_xlim(low, high)
        axes.set_ylim(*padded_range((place[1] for _, _, place in points), margin=0.15))
        axes.set_xlabel(label_text(plane.x))
        axes.set_ylabel(label_text(plane.y))
        for (label, cell, place), tint in zip(points, tints, strict=True):
            look = looks(cell)
            shade = look.colour if shades is None or tint is None else shades[1][tint]
            baseline = cell.name == data.baseline
            axes.plot(
                *place,
                look.marker,
                color=shade,
                fillstyle="none" if label in hollow else "full",
                markeredgecolor=colour("fg" if baseline else "muted") if baseline or shades else shade,
                markeredgewidth=1.6 if baseline else 0.8,
                markersize=8,
                alpha=1 if named else 0.75,
            )
            if named:
                right = place[0] > (low + high) / 2
                note = axes.annotate(
                    label_text(label, 28),
                    place,
                    xytext=(-8 if right else 8, 0),
                    textcoords="offset points",
                    ha="right" if right else "left",
                    va="center",
                )
                note.set_in_layout(False)
        if shades is not None:
            bar = figure.colorbar(shades[0], ax=axes, label=label_text(data.colour), use_gridspec=False)
            bar.outline.set_visible(False)
        if named:
            return
        tone_legend(axes, axes_told, 3)

    listed = "; ".join(f"{label}: {number(y, 3)}, {number(x, 3)}" for label, _, (x, y) in points)
    label = label_text(f"{plane.title} by cell, {title}. {listed}", 400)
    caption = f"{plane.better} {count(len(points), 'point')}, each a cell's mean over seeds.".lstrip()
    if any(cell.name == data.baseline for _, cell, _ in points):
        caption += " Ringed: the baseline."
    if hollow:
        caption += f" Hollow, degenerate: {'; '.join(sorted(hollow))}."
    if shades is not None:
        caption += f" Colour: the score of {data.colour}."
    if not named:
        caption += f" Points are named where there are no more than {LINES}."
    return Plot(Drawing(name, label, WIDTH, 320 if named else 380, paint), title, caption)


def _shades(tints: Sequence[float | None]) -> tuple[ScalarMappable, dict[float, str]] | None:
    """Return the scale of scores, and the colour of each; None where fewer than two differ."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize, to_hex

    values = {tint for tint in tints if tint is not None}
    if len(values) < 2:
        return None
    low, high = min(values), max(values)
    # Few steps, since each is an element of the page.
    colours = colormaps["viridis"].resampled(24)
    shades = {value: to_hex(colours((value - low) / (high - low))) for value in values}
    return ScalarMappable(Normalize(low, high), colours), shades


def _mean(points: _Points) -> tuple[float, float]:
    return fmean(x for x, _ in points), fmean(y for _, y in points)


def _mean_curve(runs: Sequence[_Points]) -> _Points:
    found = [dict(points) for points in runs]
    common = [step for step in found[0] if all(step in other for other in found)]
    return [(step, fmean(values[step] for values in found)) for step in common]


def mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the tables in a list that a program may have written otherwise."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        yield from (item for item in value if isinstance(item, Mapping))


def _pairs(value: Any) -> _Points:
    """Return the points of a curve that a program may have written otherwise."""
    rows = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
    pairs = [tuple(row) for row in rows if isinstance(row, Sequence) and len(row) == 2]
    return finite((x, y) for x, y in pairs if _is_number(x) and _is_number(y))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
