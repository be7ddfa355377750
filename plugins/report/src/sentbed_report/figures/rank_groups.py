"""Rank groups of a study: means with intervals, and bars over the cells that cannot be told apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from sentbed_report.figures.axis_formats import name_rows
from sentbed_report.figures.cell_styles import listed
from sentbed_report.figures.colours import colour
from sentbed_report.figures.drawn_rows import DrawnRow, DrawnRows, drawn_rows, score_label
from sentbed_report.figures.labels import label_text
from sentbed_report.figures.plot import Plot
from sentbed_report.figures.points import draw_points
from sentbed_report.statistics.letter_groups import letters_of
from sentbed_report.study.rank_groups import GroupedRow, RankGroups
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary, title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ROWS = 40
"""Maximum number of cells in a readable figure: the best ones."""


@attrs.frozen
class _Interval:
    """Mean of a row, with the interval of its difference from the best row around it."""

    row: GroupedRow
    mean: float
    low: float
    high: float


def rank_groups_plot(data: StudyData, summary: Summary, name: str) -> Plot | None:
    """Draw the cells of a table, the best above, with their intervals and groups; None without groups."""
    groups = summary.groups
    if groups is None or not groups.rows:
        return None
    intervals = [_interval(row, groups.rows[0]) for row in groups.rows[:MOST_ROWS]]
    table_rows = drawn_rows(data, summary)
    hollow = table_rows.degenerate[: MOST_ROWS - len(intervals)]
    bars = _bars(groups.rows[:MOST_ROWS])
    first, last = _range(intervals, hollow)

    def paint(figure: Figure) -> None:
        if bars:
            share = min(1.0, 0.09 * len(bars) + 0.03)
            left, right = figure.subplots(1, 2, sharey=True, width_ratios=[1, share])
            _draw_bars(right, bars)
        else:
            left = figure.subplots()
        names = [interval.row.name for interval in intervals]
        name_rows(left, [*names, *(drawn.row.name for drawn in hollow)])
        for place, interval in enumerate(intervals):
            _draw_interval(left, interval, place, first, last)
            draw_points(
                left,
                interval.mean,
                place,
                colour("c0"),
                f"ranks {interval.row.ranks} {interval.row.letters}".rstrip(),
                size=7,
                ringed=interval.row.cell == data.baseline,
            )
        for place, drawn in enumerate(hollow, start=len(intervals)):
            draw_points(left, drawn.mean, place, colour("muted"), "degenerate", size=7, hollow=True)
        # As much room as matplotlib leaves at the end of a line.
        room = 0.05 * (last - first) or 0.5
        left.set_xlim(first - room, last + room)
        left.axvline(intervals[0].mean, color=colour("muted"), linewidth=1, linestyle=(0, (4, 3)), zorder=0)
        left.set_xlabel(label_text(score_label(summary)))

    captions = [
        "Lines: the difference from the best cell, in an interval of 95 % for all pairs at once, around the "
        "mean of the cell; dashed: the best."
    ]
    if any(interval.low < first or interval.high > last for interval in intervals):
        captions.append("An arrow: the line goes on beyond the plot.")
    if bars:
        captions.append("A bar, with its letter, joins cells that cannot be told apart.")
    if any(interval.row.stopped for interval in intervals):
        captions.append("Stopped cells: at their difference from the best over the seeds that both have.")
    if any(interval.row.cell == data.baseline for interval in intervals):
        captions.append("Ringed: the baseline.")
    if len(intervals) < len(groups.rows):
        captions.append(f"Of {len(groups.rows):,} cells the best {len(intervals)} are drawn.")
    captions += _left_out(groups, table_rows)
    height = 80 + 24 * (len(intervals) + len(hollow))
    return Plot(name, f"Rank groups, {title_of(summary)}", " ".join(captions), height, paint)


def _interval(row: GroupedRow, best: GroupedRow) -> _Interval:
    # The mean of a stopped cell is over other seeds: it may lie beyond that of the best.
    mean = best.mean + row.from_best if row.stopped else row.mean
    return _Interval(row, mean, mean + row.low - row.from_best, mean + row.high - row.from_best)


def _range(intervals: Sequence[_Interval], hollow: Sequence[DrawnRow]) -> tuple[float, float]:
    """Return what the axis shows: all lines, but no more than the means and as much again on either side.

    An interval of two seeds can be a hundred times as wide as all differences. Where all means are equal,
    there is nothing else to show than the intervals.
    """
    means = [interval.mean for interval in intervals]
    low, high = min(means), max(means)
    span = high - low
    if math.isclose(low, high, rel_tol=1e-9):
        span = math.inf
    ends = [end for interval in intervals for end in (interval.low, interval.high) if math.isfinite(end)]
    first = max(min([low, *ends]), low - span)
    last = min(max([high, *ends]), high + span)
    shown = [first, last, *(drawn.mean for drawn in hollow)]
    return min(shown), max(shown)


def _draw_interval(axes: Axes, interval: _Interval, place: int, first: float, last: float) -> None:
    """Draw the part of an interval that the axis shows, with an arrow where it goes on."""
    from matplotlib.markers import CARETLEFT, CARETRIGHT

    tone = colour("c0")
    ends = (max(interval.low, first), min(interval.high, last))
    axes.plot(ends, (place, place), color=tone, linewidth=1.6, solid_capstyle="butt")
    if interval.low < first:
        axes.plot(first, place, marker=CARETLEFT, color=tone, markersize=6, clip_on=False)
    if interval.high > last:
        axes.plot(last, place, marker=CARETRIGHT, color=tone, markersize=6, clip_on=False)


def _bars(rows: Sequence[GroupedRow]) -> dict[str, list[int]]:
    """Return the letter of each group -> the places of its rows, in the order of the groups."""
    bars: dict[int, list[int]] = {}
    for place, row in enumerate(rows):
        for group in row.groups:
            bars.setdefault(group, []).append(place)
    return {letters_of([group]): bars[group] for group in sorted(bars)}


def _draw_bars(axes: Axes, bars: dict[str, list[int]]) -> None:
    tone = colour("c1")
    for index, (letter, places) in enumerate(bars.items()):
        # Thin where a group jumps over cells that are none of it.
        axes.plot((index, index), (places[0], places[-1]), color=tone, linewidth=1.2)
        # From each cell to the next one, if that is in the group, too.
        starts = [place - 0.18 for place in places]
        ends = [place + 0.18 if place + 1 not in places else place + 1 for place in places]
        axes.vlines([index] * len(places), starts, ends, color=tone, linewidth=5)
        axes.annotate(
            letter,
            (index, places[0] - 0.18),
            xytext=(0, 2),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize="small",
        )
    axes.set_xlim(-0.8, len(bars) - 0.2)
    axes.set_xticks([])
    axes.grid(visible=False)
    axes.tick_params(labelleft=False)
    axes.spines[:].set_visible(False)


def _left_out(groups: RankGroups, rows: DrawnRows) -> list[str]:
    """Return sentences on the rows of the table that are in no group."""
    sentences = []
    reasons = dict(groups.left)
    apart = [drawn.row.name for drawn in rows.sound if drawn.row.name in reasons]
    if apart:
        sentences.append(f"Not compared: {listed([f'{name} ({reasons[name]})' for name in apart])}.")
    if rows.caption:
        sentences.append(rows.caption)
    return sentences
