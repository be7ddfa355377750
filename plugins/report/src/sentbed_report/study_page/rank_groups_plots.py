"""Plots of rank groups: means with intervals, and bars over the cells that cannot be told apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sentbed_report.formatting import number
from sentbed_report.matplotlib_svg import Drawing, colour, label_text
from sentbed_report.run_plots import WIDTH, Plot
from sentbed_report.statistics.letter_groups import letters_of
from sentbed_report.study.rank_groups import RankGroups
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary, title_of
from sentbed_report.study_page.cell_plots import name_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROWS = 40
"""Maximum number of cells in a readable plot: the best ones."""


def rank_groups_plot(data: StudyData, summary: Summary, name: str) -> Plot | None:
    """Draw the cells of a table, the best above, with their intervals and groups; None without groups."""
    groups = summary.groups
    if groups is None or not groups.rows:
        return None
    shown = groups.rows[:ROWS]
    bars = _bars(groups)
    # The mean of a stopped cell is over other seeds: it may lie beyond that of the best.
    means = [shown[0].mean + row.from_best if row.stopped else row.mean for row in shown]
    lines = [
        (mean + row.low - row.from_best, mean + row.high - row.from_best)
        for mean, row in zip(means, shown, strict=True)
    ]
    first, last = _range(means, lines)

    def paint(figure: Figure) -> None:
        from matplotlib.markers import CARETLEFT, CARETRIGHT

        if bars:
            share = min(1.0, 0.09 * len(bars) + 0.03)
            left, right = figure.subplots(1, 2, sharey=True, width_ratios=[1, share])
            _paint_bars(right, bars)
        else:
            left = figure.subplots()
        for place, row in enumerate(shown):
            ringed = row.cell == data.baseline
            low, high = lines[place]
            ends = (max(low, first), min(high, last))
            left.plot(ends, (place, place), color=colour("c0"), linewidth=1.6, solid_capstyle="butt")
            for beyond, end, head in ((low < first, first, CARETLEFT), (high > last, last, CARETRIGHT)):
                if beyond:
                    left.plot(end, place, marker=head, color=colour("c0"), markersize=6, clip_on=False)
            left.plot(
                means[place],
                place,
                "o",
                color=colour("c0"),
                markeredgecolor=colour("fg" if ringed else "c0"),
                markeredgewidth=1.6 if ringed else 0.8,
                markersize=7,
            )
        # As much room as matplotlib leaves at the end of a line.
        room = 0.05 * (last - first) or 0.5
        left.set_xlim(first - room, last + room)
        left.axvline(shown[0].mean, color=colour("muted"), linewidth=1, linestyle=(0, (4, 3)), zorder=0)
        left.set_xlabel(label_text(summary.headings[-1]))
        name_rows(left, [row.name for row in shown])

    told = "; ".join(
        f"{row.name}: {number(row.mean, summary.digits)}, ranks {row.ranks}"
        + (f", {row.letters}" if row.letters else "")
        for row in shown
    )
    title = f"Rank groups, {title_of(summary)}"
    parts = [
        "Lines: the difference from the best cell, in an interval of 95 % for all pairs at once, around the "
        "mean of the cell; dashed: the best."
    ]
    if any(low < first or high > last for low, high in lines):
        parts.append("An arrow: the line goes on beyond the plot.")
    if bars:
        parts.append("A bar, with its letter, joins cells that cannot be told apart.")
    if any(row.stopped for row in shown):
        parts.append("Stopped cells: at their difference from the best over the seeds that both have.")
    if any(row.cell == data.baseline for row in shown):
        parts.append("Ringed: the baseline.")
    if len(shown) < len(groups.rows):
        parts.append(f"Of {len(groups.rows):,} cells the best {len(shown)} are drawn.")
    height = 80 + 24 * len(shown)
    label = label_text(f"{title}. {told}", 800)
    return Plot(Drawing(name, label, WIDTH, height, paint), title, " ".join(parts))


def _range(means: Sequence[float], lines: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return what the axis shows: all lines, but no more than the means and as much again on either side.

    An interval of two seeds can be a hundred times as wide as all differences. Where all means are equal,
    there is nothing else to show than the intervals.
    """
    low, high = min(means), max(means)
    ends = [end for line in lines for end in line if math.isfinite(end)]
    span = high - low
    if math.isclose(low, high, rel_tol=1e-9):
        span = math.inf
    return max(min([low, *ends]), low - span), min(max([high, *ends]), high + span)


def _bars(groups: RankGroups) -> list[tuple[str, list[int]]]:
    """Return the letter and the places of each group of which a drawn row is a part."""
    found: dict[int, list[int]] = {}
    for place, row in enumerate(groups.rows[:ROWS]):
        for group in row.groups:
            found.setdefault(group, []).append(place)
    return [(letters_of([group]), places) for group, places in sorted(found.items())]


def _paint_bars(axes: Axes, bars: list[tuple[str, list[int]]]) -> None:
    shade = colour("c1")
    for index, (letter, places) in enumerate(bars):
        # Thin where a group jumps over cells that are none of it.
        axes.plot((index, index), (places[0], places[-1]), color=shade, linewidth=1.2)
        for run in _runs(places):
            ends = (run[0] - 0.18, run[-1] + 0.18)
            axes.plot((index, index), ends, color=shade, linewidth=5, solid_capstyle="butt")
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
    for side in axes.spines.values():
        side.set_visible(False)


def _runs(places: list[int]) -> list[list[int]]:
    """Return the runs of neighbours."""
    found = [[places[0]]]
    for place in places[1:]:
        if place == found[-1][-1] + 1:
            found[-1].append(place)
        else:
            found.append([place])
    return found
