"""What the figures of a report have drawn: named lines, labels of axes."""

from __future__ import annotations


def named_lines(plot):
    """Name of each line, or point, of the first part of a figure -> its places."""
    axes = plot.figure(6).axes[0]
    lines = {}
    for line in axes.lines:
        name = str(line.get_label())
        if not name.startswith("_"):
            lines[name] = [(float(x), float(y)) for x, y in line.get_xydata()]
    return lines


def axis_labels(plot):
    """Labels of the horizontal and of the vertical axis of the first part of a figure."""
    axes = plot.figure(6).axes[0]
    return axes.get_xlabel(), axes.get_ylabel()
