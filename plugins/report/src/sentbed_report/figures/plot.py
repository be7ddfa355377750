"""`Plot`: a figure that matplotlib draws, as SVG in a page or as a separate figure."""

from __future__ import annotations

import html
import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import attrs
from sentbed.errors import RunError

from sentbed_report.page_template import resource

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SMALLEST, LARGEST = 0.5, 50.0
"""Smallest and largest width and height of a separate figure, in inches."""

_PAGE_FONT_SIZE = 12
_FILE_FONT_SIZE = 8
"""Font size of a separate figure in points, as in captions of two-column papers."""

_LONGEST_NAME = 28


@attrs.frozen
class Plot:
    """A figure that is drawn on demand; its title and caption are plain text."""

    title: str
    caption: str
    height: int
    """Height in a page, in CSS pixels."""
    paint: Callable[[Figure], None]
    """Function that draws into an empty figure."""
    width: int = 440
    """Width in a page, in CSS pixels."""

    def svg(self, name: str) -> str:
        """Return an `<svg>` element for a page, whose ids differ from those of figures with other names."""
        buffer = io.StringIO()
        settings = {"svg.fonttype": "none", "svg.hashsalt": name}
        with _settings(_PAGE_FONT_SIZE, settings):
            # The page shows the text in its own font, which has the letters that matplotlib's font lacks.
            warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
            figure = self._painted(self.width / 72, self.height / 72)
            figure.savefig(buffer, format="svg", transparent=True)
        return _page_svg(buffer.getvalue(), self.title)

    def figure(self, width: float, height: float | None = None) -> Figure:
        """Return a separate figure of `width` by `height` inches.

        Without `height`, its proportions are those in a page.

        Raises:
            RunError: if width or height is not from `SMALLEST` to `LARGEST`.
        """
        if height is None:
            height = width * self.height / self.width
        for side, inches in {"width": width, "height": height}.items():
            if not SMALLEST <= inches <= LARGEST:
                raise RunError(
                    f"the figure's {side} is {inches:g} inches, and must be {SMALLEST:g} to {LARGEST:g}; "
                    "set `width` and `height` within these limits"
                )
        with _settings(_FILE_FONT_SIZE, {}):
            figure = self._painted(width, height)
            # This creates the ticks with these settings; ticks created later would have the caller's.
            figure.draw_without_rendering()
        return figure

    def _painted(self, width: float, height: float) -> Figure:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width, height), layout="constrained")
        self.paint(figure)
        return figure


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


@cache
def colours() -> dict[str, str]:
    """Return the colours of the page's light theme: `fg`, `muted`, `line`, `page`, and `c0` to `c5` for lines."""
    light_theme = resource("sentbed_report.page", "style.css").partition("}")[0]
    return dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", light_theme))


def series() -> list[str]:
    """Return the colours of lines and points, in their order."""
    return [colour for name, colour in colours().items() if re.fullmatch(r"c\d", name)]


@contextmanager
def _settings(size: float, more: dict[Any, Any]) -> Iterator[None]:
    """Set colours, font size and more settings within a `with` block, independent of the user's settings."""
    import matplotlib
    from matplotlib.rcsetup import cycler

    palette = colours()
    dashes = cycler(linestyle=["-", "--"])
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {
                # The first lines differ in colour; later lines repeat the colours with dashes.
                "axes.prop_cycle": dashes * cycler(color=series()),
                "axes.formatter.useoffset": False,
                # Labels have no mathematical markup: `$` is a dollar sign.
                "text.parse_math": False,
                "font.size": size,
                "axes.labelsize": size,
                "xtick.labelsize": size - 1,
                "ytick.labelsize": size - 1,
                "axes.spines.top": False,
                "axes.spines.right": False,
                "axes.grid": True,
                "axes.axisbelow": True,
                "xtick.major.size": 0,
                "ytick.major.size": 0,
                "text.color": palette["fg"],
                "axes.labelcolor": palette["muted"],
                "axes.edgecolor": palette["line"],
                "xtick.color": palette["muted"],
                "ytick.color": palette["muted"],
                "grid.color": palette["line"],
                **more,
            }
        )
        yield


def _page_svg(text: str, title: str) -> str:
    """Return the `<svg>` element of an SVG file of matplotlib, with a page's variables for the colours."""
    variables = {colour: f"var(--{name})" for name, colour in colours().items()}

    def page_tag(match: re.Match[str]) -> str:
        tag = " ".join(match[0].split())
        # Ids of groups are the same in every figure.
        tag = re.sub(r'^<g id="[^"]*"', "<g", tag)
        for colour, variable in variables.items():
            tag = tag.replace(colour, variable)
        return re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", tag)

    element = text[text.index("<svg") :]
    # Style sheets would apply to the whole page.
    element = re.sub(
        r"<(metadata|style)\b.*?</\1>|<!--.*?-->", "", element, flags=re.DOTALL
    )
    element = re.sub(r' xmlns(:\w+)?="[^"]*"', "", element)
    element = element.replace("xlink:href", "href")
    element = re.sub(r"<[^>]+>", page_tag, element)
    element = re.sub(r">\s*\n\s*<", "><", element)
    label = f'<svg role="img" aria-label="{html.escape(title)}"'
    return element.replace("<svg", label, 1)
