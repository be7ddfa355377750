"""`Plot`: a figure that matplotlib draws, for pages, files and notebooks."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 3.3
"""Default width of a figure in inches: the width of a column in a two-column paper."""

STRONG, MUTED = "tab:blue", "tab:gray"
"""Colours of what a figure is about, and of what stands beside it."""

_LONGEST_NAME = 28

_STYLE: Mapping[Any, Any] = {
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "grid.color": "0.9",
    # Labels have no mathematical markup: `$` is a dollar sign.
    "text.parse_math": False,
    # Fonts are embedded as TrueType (42); many publishers refuse the default, Type 3.
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    # The same figure gives the same bytes.
    "svg.hashsalt": "sentbed",
}


@attrs.frozen
class Plot:
    """A figure that is drawn on demand; its title and caption are plain text."""

    title: str
    caption: str
    paint: Callable[[Figure], None]
    """Function that draws into an empty figure."""
    ratio: float = 0.7
    """Height divided by width."""

    def figure(self, width: float = WIDTH) -> Figure:
        """Return the figure with a width in inches."""
        from matplotlib.figure import Figure

        with style():
            figure = Figure((width, width * self.ratio), layout="constrained")
            self.paint(figure)
            # This creates the ticks in this style; ticks created later would have the caller's.
            figure.draw_without_rendering()
        return figure

    def address(self) -> str:
        """Return the figure as an SVG image within its own address, for the element `<img>` of a page."""
        image = io.BytesIO()
        figure = self.figure()
        with style():
            figure.savefig(image, format="svg", metadata={"Date": None})
        return (
            f"data:image/svg+xml;base64,{base64.b64encode(image.getvalue()).decode()}"
        )


@contextmanager
def style() -> Iterator[None]:
    """Draw in the style of reports within a `with` block, independent of the user's settings."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def short_name(name: str) -> str:
    """Return a name that fits a legend or a tick: of a long name, its beginning and its end."""
    if len(name) <= _LONGEST_NAME:
        return name
    # Names of cells often begin alike and differ in their last labels.
    half = _LONGEST_NAME // 2
    return f"{name[:half]}…{name[1 - half :]}"


def legend_above(figure: Figure) -> None:
    """Draw a legend of the named lines and points above a figure, unless there is only one."""
    handles, names = figure.axes[0].get_legend_handles_labels()
    if len(names) > 1:
        figure.legend(
            handles,
            list(map(short_name, names)),
            loc="outside upper left",
            frameon=False,
            ncols=2,
        )
