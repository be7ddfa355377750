"""Plots of a run's report; functions return None or nothing if there is nothing to draw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
from sentbed.protocols import START, Scatter, StageCurve

from sentbed_report.curve_smoothing import BUCKETS, finite, padded_range, smoothed, thinned
from sentbed_report.formatting import count, number, short
from sentbed_report.matplotlib_svg import Drawing, colour, label_text, legend_above
from sentbed_report.run_report import Ranking
from sentbed_report.score_planes import GeometryPanel, GeometryPoint, base_name, encoder_order

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS_PER_SCATTER = 1500
"""Maximum points per scatter panel; more could not be distinguished."""

_POINTS_PER_PAGE = 30_000
"""Maximum points per page, which keeps pages with dozens of tasks under about a megabyte."""

MARKED = 60
"""Maximum number of points for which a curve has markers."""

_LAYERS = 10
"""Number of paths per scatter: a single path does not darken where its points overlap."""

WIDTH = 440
"""Width of a plot in CSS pixels."""


@attrs.frozen
class Plot:
    """Plot to embed: `svg` is safe markup, `title` and `caption` are plain text."""

    drawing: Drawing
    title: str
    caption: str

    @property
    def svg(self) -> str:
        """The drawing as an element of a page."""
        return self.drawing.svg


@attrs.frozen
class PlotGroup:
    """Plots that share their axes' ranges and are read together."""

    title: str
    caption: str
    """Caption common to all plots."""
    plots: tuple[Plot, ...]


def loss_plot(stage: StageCurve, name: str) -> Plot | None:
    """Draw the training loss, raw and smoothed, over the learning rate."""
    losses = finite(zip(stage.steps, stage.losses, strict=False))
    rates = finite(zip(stage.steps, stage.learning_rates, strict=False))
    if not losses:
        return None
    reach = len(losses) // 50
    smooth = smoothed(losses, reach)

    def paint(figure: Figure) -> None:
        axes, *below = figure.subplots(
            2 if rates else 1, 1, sharex=True, squeeze=False, height_ratios=[4, 1] if rates else [1]
        )[:, 0]
        marker = "o" if len(losses) <= MARKED else ""
        if reach:
            axes.plot(*thinned(losses), color=colour("c0"), linewidth=0.7, alpha=0.4)
        axes.plot(*thinned(smooth), color=colour("c0"), linewidth=1.8, marker=marker, markersize=3.5)
        axes.set_ylabel("loss")
        axes.locator_params(axis="y", nbins=6)
        for rate in below:
            rate.plot(*thinned(rates), color=colour("c1"), linewidth=1.4, marker=marker, markersize=3.5)
            rate.set_ylabel("lr")
            top = max(value for _, value in rates)
            rate.set_ylim(0, top * 1.15 or 1)
            rate.set_yticks([0, top] if top else [0], ["0", short(top)] if top else ["0"])
        step_axis(below[0] if below else axes)
        figure.align_ylabels()

    caption = []
    if reach:
        caption.append(f"Thin: as logged; thick: mean over {2 * reach + 1:,} logged steps.")
    if len(losses) > 2 * BUCKETS:
        caption.append(f"{len(losses):,} values drawn as the extremes of {BUCKETS} buckets.")
    if rates:
        caption.append("Below: the learning rate.")
    missing = len(stage.losses) - len(losses)
    if missing:
        caption.append(f"{count(missing, 'logged loss', 'logged losses')} not finite, not drawn.")
    label = (
        f"Training loss of stage {stage.name}: from {short(smooth[0][1])} at step {smooth[0][0]:,} "
        f"to {short(smooth[-1][1])} at step {smooth[-1][0]:,}"
    )
    return Plot(Drawing(name, label_text(label, 300), WIDTH, 280, paint), "Training loss", " ".join(caption))


def validation_plot(stage: StageCurve, name: str) -> Plot | None:
    """Draw the validation scores with the step whose weights were kept."""
    points = finite(stage.validations)
    if not points:
        return None
    best = next(((step, value) for step, value in points if step == stage.best_step), None)

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        marker = "o" if len(points) <= MARKED else ""
        axes.plot(*thinned(points), color=colour("c2"), linewidth=1.6, marker=marker, markersize=3.5)
        axes.set_ylabel(label_text(stage.metric))
        axes.margins(y=0.16)
        if best is not None:
            axes.axvline(best[0], color=colour("muted"), linewidth=0.8, linestyle=(0, (3, 3)))
            axes.plot(
                *best,
                "o",
                color=colour("page"),
                markeredgecolor=colour("fg"),
                markersize=8,
                markeredgewidth=1.6,
            )
            first, last = points[0][0], points[-1][0]
            left = best[0] - first > (last - first) / 2
            axes.annotate(
                number(best[1]),
                best,
                xytext=(-9 if left else 9, 7),
                textcoords="offset points",
                ha="right" if left else "left",
                weight="bold",
            )
        step_axis(axes)

    sentence = (
        "" if best is None else f"Best: {number(best[1])} at step {best[0]:,}, whose weights were kept."
    )
    label = label_text(
        f"{stage.metric} of stage {stage.name} over {count(len(points), 'look')}. {sentence}", 300
    )
    return Plot(Drawing(name, label, WIDTH, 280, paint), "Validation", sentence)


def scatter_groups(scatters: Sequence[tuple[str, Scatter]], name: str) -> tuple[PlotGroup, ...]:
    """Draw each task's points, one panel per encoder, before training next to after."""
    by_title: dict[tuple[str, str, str], list[tuple[str, list[tuple[float, float]]]]] = {}
    limit = min(POINTS_PER_SCATTER, max(50, _POINTS_PER_PAGE // max(1, len(scatters))))
    for encoder, scatter in scatters:
        points = finite(zip(scatter.x, scatter.y, strict=False))
        if points:
            by_title.setdefault((scatter.title, scatter.x_label, scatter.y_label), []).append(
                (encoder, points)
            )
    groups = []
    for index, ((title, x_label, y_label), panels) in enumerate(by_title.items()):
        order = encoder_order(encoder for encoder, _ in panels)
        panels.sort(key=lambda panel: order.index(panel[0]))
        limits = [padded_range(point[axis] for _, points in panels for point in points) for axis in (0, 1)]
        plots = tuple(
            _scatter(f"{name}-{index}-{nth}", title, encoder, points, (x_label, y_label), limits, limit)
            for nth, (encoder, points) in enumerate(panels)
        )
        captions = {plot.caption for plot in plots}
        shared = captions.pop() if len(captions) == 1 else ""
        groups.append(PlotGroup(title, "Each: " * (len(plots) > 1 and shared != "") + shared, plots))
    return tuple(groups)


def geometry_plot(panel: GeometryPanel, name: str) -> Plot:
    """Draw a plane with one point per encoder and arrows from before to after training."""
    bases = list(dict.fromkeys(base_name(point.encoder) for point in panel.points))
    places = {point.encoder: point for point in panel.points}
    low, high = padded_range((point.x for point in panel.points), margin=0.3)

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        axes.set_xlim(low, high)
        axes.set_ylim(*padded_range((point.y for point in panel.points), margin=0.3))
        axes.set_xlabel(label_text(panel.plane.x))
        axes.set_ylabel(label_text(panel.plane.y))
        for point in panel.points:
            base = base_name(point.encoder)
            tone = colour(f"c{bases.index(base) % 6}")
            other = places.get(base if point.encoder.endswith(START) else base + START)
            if other is not None and point.encoder == base:
                _arrow(axes, other, point, tone)
            # Label on the side away from the arrow.
            above = other is None or other.y < point.y
            _mark(axes, point, tone, right=point.x > (low + high) / 2, above=above)

    where = ", ".join(part for part in (panel.protocol, panel.task, panel.evaluator) if part)
    listed = "; ".join(f"{p.encoder}: {number(p.y, 3)}, {number(p.x, 3)}" for p in panel.points)
    label = label_text(f"{panel.plane.title}, {where}. {listed}", 400)
    caption = panel.plane.better
    if any(point.encoder.endswith(START) for point in panel.points):
        caption += " Hollow: before training."
    return Plot(Drawing(name, label, WIDTH, 300, paint), where, caption.strip())


def ranking_plot(ranking: Ranking, name: str) -> Plot | None:
    """Draw the distribution of the candidates' scores, marking the baseline and the best."""
    scores = [candidate.score for candidate in ranking.candidates if math.isfinite(candidate.score)]
    if not scores:
        return None
    places = ranking.digits
    marks = [("best", scores[0], "c1", "solid")]
    if math.isfinite(ranking.baseline.score):
        marks.append(("no demonstration", ranking.baseline.score, "fg", "dashed"))

    def paint(figure: Figure) -> None:
        from matplotlib.ticker import MaxNLocator

        axes = figure.subplots()
        axes.hist(scores, bins=min(30, max(5, math.isqrt(len(scores)))), color=colour("c0"), alpha=0.6)
        for what, value, tone, style in marks:
            axes.axvline(
                value,
                color=colour(tone),
                linewidth=1.6,
                linestyle=style,
                label=f"{what} {number(value, places)}",
            )
        axes.set_xlabel(label_text(ranking.evaluator))
        axes.set_ylabel("candidates")
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.xaxis.set_major_locator(MaxNLocator(6))
        legend_above(axes, 2)

    label = label_text(
        f"Histogram of {count(len(scores), 'score')}: "
        + ", ".join(f"{what} {number(value, places)}" for what, value, _, _ in marks),
        300,
    )
    missing = len(ranking.candidates) - len(scores)
    caption = f"{count(missing, 'score')} not finite, not drawn." if missing else ""
    return Plot(Drawing(name, label, WIDTH, 280, paint), "Scores of the candidates", caption)


def _scatter(
    name: str,
    title: str,
    encoder: str,
    points: list[tuple[float, float]],
    labels: tuple[str, str],
    limits: Sequence[tuple[float, float]],
    limit: int,
) -> Plot:
    shown = points
    if len(points) > limit:
        shown = [points[i * len(points) // limit] for i in range(limit)]

    def paint(figure: Figure) -> None:
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path

        tone = colour("muted" if encoder.endswith(START) else "c0")
        axes = figure.subplots()
        axes.set_xlim(*limits[0])
        axes.set_ylim(*limits[1])
        axes.set_xlabel(label_text(labels[0]))
        axes.set_ylabel(label_text(labels[1]))
        for layer in range(min(_LAYERS, len(shown))):
            dots = [place for point in shown[layer::_LAYERS] for place in (point, point)]
            path = Path(dots, [Path.MOVETO, Path.LINETO] * (len(dots) // 2))
            path.should_simplify = False  # a line of no length is a dot here
            # As an artist: `add_patch` would compute limits, which are set already.
            axes.add_artist(
                PathPatch(path, fill=False, edgecolor=tone, linewidth=3.2, alpha=0.4, capstyle="round")
            )

    caption = count(len(points), "point")
    if len(shown) < len(points):
        caption = f"{len(shown):,} of {caption}, evenly chosen"
    label = label_text(f"{title}, {encoder}: {labels[1]} over {labels[0]}, {caption}", 300)
    return Plot(Drawing(name, label, 260, 225, paint), encoder, caption)


def _mark(axes: Axes, point: GeometryPoint, tone: str, right: bool, above: bool) -> None:
    place = (point.x, point.y)
    fill = colour("page") if point.encoder.endswith(START) else tone
    axes.plot(*place, "o", color=fill, markeredgecolor=tone, markersize=8)
    note = axes.annotate(
        label_text(point.encoder, 28),
        place,
        xytext=(-4 if right else 4, 8 if above else -8),
        textcoords="offset points",
        ha="right" if right else "left",
        va="bottom" if above else "top",
    )
    note.set_in_layout(False)


def _arrow(axes: Axes, before: GeometryPoint, after: GeometryPoint, tone: str) -> None:
    axes.annotate(
        "",
        (after.x, after.y),
        xytext=(before.x, before.y),
        arrowprops={"arrowstyle": "->", "color": tone, "linewidth": 1.2, "shrinkA": 7, "shrinkB": 7},
    )


def step_axis(axes: Axes) -> None:
    """Format the horizontal axis for optimiser steps."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.set_xlabel("step")
    # Without `steps`, whole numbers may be ticked at multiples of 3, 6 or 15, where nothing was measured.
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))
