"""Figure of rank groups: means of the cells, with intervals of their difference from the best cell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sentbed_report.figures.axis_formats import name_rows
from sentbed_report.figures.colours import colour
from sentbed_report.figures.drawn_rows import DrawnRows, drawn_rows, score_label
from sentbed_report.figures.labels import label_text
from sentbed_report.figures.plot import Plot
from sentbed_report.figures.points import draw_points
from sentbed_report.formatting import first_names
from sentbed_report.study.rank_groups import GroupedRow, RankGroups
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary, title_of

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ROWS = 40
"""Maximum number of cells in a figure; if there are more, only the best are drawn."""


def rank_groups_plot(data: StudyData, summary: Summary) -> Plot | None:
    """Draw a table's cells with intervals and ranks, the best cell at the top; None without compared rows."""
    groups = summary.groups
    if groups is None or not groups.rows:
        return None

    intervals = _intervals(groups.rows[:MOST_ROWS])
    drawn = drawn_rows(data, summary)
    hollow = drawn.degenerate[: MOST_ROWS - len(intervals)]
    first, last = _range(intervals, hollow)

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        name_rows(axes, [*intervals["name"], *hollow["name"]])
        _draw_intervals(axes, intervals, first, last)
        for row in intervals.itertuples():
            ringed = row.cell == data.baseline
            draw_points(
                axes,
                row.mean,
                row.Index,
                colour("c0"),
                row.ranks,
                size=7,
                ringed=ringed,
            )
        for place, value in enumerate(hollow["value"], start=len(intervals)):
            draw_points(
                axes, value, place, colour("muted"), "degenerate", size=7, hollow=True
            )

        # The same margin that matplotlib leaves at the end of a line.
        room = 0.05 * (last - first) or 0.5
        axes.set_xlim(first - room, last + room)
        best = intervals["mean"].iloc[0]
        axes.axvline(
            best,
            color=colour("muted"),
            linewidth=1,
            linestyle=(0, (4, 3)),
            zorder=0,
        )
        axes.set_xlabel(label_text(score_label(summary)))

    captions = [
        *_captions(intervals, len(groups.rows), first, last, data.baseline),
        _not_compared(drawn, groups),
        drawn.caption,
    ]
    height = 80 + 24 * (len(intervals) + len(hollow))
    title = f"Rank groups, {title_of(summary)}"
    return Plot(title, captions, height, paint)


def _captions(
    intervals: pandas.DataFrame,
    rows: int,
    first: float,
    last: float,
    baseline: str | None,
) -> Iterator[str]:
    """Yield sentences that explain the marks of the intervals; `rows` is the number of rows of the table."""
    yield (
        "Lines: the interval of 95 % of the difference from the best cell, for all pairs at once, drawn around "
        "the mean of the cell; dashed: the mean of the best cell."
    )
    if (intervals["low"] < first).any() or (intervals["high"] > last).any():
        yield "Arrow: the line goes on beyond the plot."
    if baseline in set(intervals["cell"]):
        yield "Ringed: the baseline."
    if len(intervals) < rows:
        yield f"Of {rows:,} cells the best {len(intervals)} are drawn."


def _not_compared(drawn: DrawnRows, groups: RankGroups) -> str:
    """Return a sentence on the rows with a score that have no group; empty if there are none."""
    reasons = dict(groups.left)
    left_out = []
    for name in drawn.sound["name"]:
        if name in reasons:
            left_out.append(f"{name} ({reasons[name]})")
    if not left_out:
        return ""
    return f"Not compared: {first_names(left_out)}."


def _intervals(rows: Sequence[GroupedRow]) -> pandas.DataFrame:
    """Return the mean of each row, and around it the interval of its difference from the best row."""
    import pandas

    intervals = []
    for row in rows:
        low = row.mean + row.low - row.from_best
        high = row.mean + row.high - row.from_best
        ranks = f"ranks {row.ranks}"
        intervals.append((row.name, row.cell, ranks, row.mean, low, high))
    columns = ["name", "cell", "ranks", "mean", "low", "high"]
    return pandas.DataFrame(intervals, columns=columns)


def _range(
    intervals: pandas.DataFrame, hollow: pandas.DataFrame
) -> tuple[float, float]:
    """Return the limits of the horizontal axis. It shows all means, and the intervals as far as is readable.

    On each side, the axis extends beyond the means by at most their range, since the interval of two seeds can be
    a hundred times as wide. If all means are equal, it shows all intervals.
    """
    low, high = intervals["mean"].min(), intervals["mean"].max()
    span = high - low
    if math.isclose(low, high, rel_tol=1e-9):
        span = math.inf
    ends = (
        intervals[["low", "mean", "high"]]
        .replace([-math.inf, math.inf], math.nan)
        .stack()
    )
    first = max(ends.min(), low - span)
    last = min(ends.max(), high + span)
    shown = [first, last, *hollow["value"]]
    return min(shown), max(shown)


def _draw_intervals(
    axes: Axes,
    intervals: pandas.DataFrame,
    first: float,
    last: float,
) -> None:
    """Draw each interval up to the limits `first` and `last` of the axis, with an arrow if it goes on."""
    from matplotlib.markers import CARETLEFT, CARETRIGHT

    low, high = intervals["low"], intervals["high"]
    axes.hlines(
        intervals.index,
        low.clip(first),
        high.clip(upper=last),
        color=colour("c0"),
        linewidth=1.6,
    )
    for marker, end, beyond in (
        (CARETLEFT, first, low < first),
        (CARETRIGHT, last, high > last),
    ):
        for place in intervals.index[beyond]:
            axes.plot(
                end,
                place,
                marker=marker,
                color=colour("c0"),
                markersize=6,
                clip_on=False,
            )
