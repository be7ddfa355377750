"""What the figures of a report have drawn: named lines, hollow points, labels of axes."""

from __future__ import annotations


def named_lines(plot, part=0):
    """Name of each line, or point, of a part of a figure -> its places."""
    axes = plot.figure(6).axes[part]
    lines = {}
    for line in axes.lines:
        name = str(line.get_label())
        if not name.startswith("_"):
            lines[name] = [(float(x), float(y)) for x, y in line.get_xydata()]
    return lines


def hollow_points(plot, part=0):
    """Places of the hollow points of a part of a figure."""
    points = []
    for line in plot.figure(6).axes[part].lines:
        if line.get_fillstyle() == "none":
            points += [(float(x), float(y)) for x, y in line.get_xydata()]
    return points


def axis_labels(plot, part=0):
    """Labels of the horizontal and of the vertical axis of a part of a figure."""
    axes = plot.figure(6).axes[part]
    return axes.get_xlabel(), axes.get_ylabel()
