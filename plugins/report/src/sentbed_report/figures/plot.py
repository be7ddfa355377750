"""`Plot`: a figure that matplotlib draws, as SVG in the page of a report or as a separate figure."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs
from sentbed.errors import RunError

from sentbed_report.figures.colours import (
    PAGE_COLOURS,
    Theme,
    theme_colours,
    use_colours,
)
from sentbed_report.figures.descriptions import describe
from sentbed_report.figures.labels import label_text
from sentbed_report.figures.page_svg import page_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE_FONT_SIZE = 12
"""Font size in a page, in units of the SVG view box, which are CSS pixels unless the page scales the figure."""

FILE_FONT_SIZE = 8
"""Font size of a separate figure in points, as in captions of two-column papers."""

SMALLEST, LARGEST = 0.5, 50.0
"""Smallest and largest width and height of a separate figure, in inches."""

_LONGEST_LABEL = 800
"""Maximum number of characters of the description for screen readers."""

_FALLBACKS = (
    "Noto Sans SC",
    "Noto Sans JP",
    "Noto Sans KR",
    "Noto Sans TC",
    "Noto Sans",
    "Arial Unicode MS",
    "SimHei",
    "Malgun Gothic",
    "NanumGothic",
    "Droid Sans Fallback",
)
"""Fonts for characters that DejaVu Sans lacks, in particular Chinese, Japanese and Korean characters."""


def _joined(sentences: str | Sequence[str]) -> str:
    if isinstance(sentences, str):
        return sentences
    return " ".join(filter(None, sentences))


@attrs.frozen
class Plot:
    """A figure that is drawn on demand; its title and caption are plain text."""

    title: str
    caption: str = attrs.field(converter=_joined)
    """Caption. A sequence of sentences is joined; empty sentences are left out."""
    height: int
    """Height in a page, in CSS pixels."""
    paint: Callable[[Figure], None]
    """Function that draws into an empty figure. It takes its colours from the function `colour`."""
    width: int = 440
    """Width in a page, in CSS pixels."""

    def element(self, prefix: str) -> str:
        """Return an `<svg>` element for a page, in safe markup; all ids begin with `prefix`.

        The same figure always gives the same text.
        """
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        buffer = io.StringIO()
        with _matplotlib_settings(
            PAGE_COLOURS, PAGE_FONT_SIZE, {"svg.fonttype": "none"}
        ):
            figure = Figure(figsize=(self.width / 72, self.height / 72))
            self.paint(figure)
            # If the figure itself had a layout engine, saving would draw it twice.
            ConstrainedLayoutEngine().execute(figure)
            undated = {"Date": None, "Creator": None}
            figure.savefig(
                buffer,
                format="svg",
                transparent=True,
                metadata=undated,
            )
            label = label_text(f"{self.title}. {describe(figure)}", _LONGEST_LABEL)
        return page_svg(buffer.getvalue(), label, prefix)

    def figure(
        self,
        width: float,
        height: float | None = None,
        theme: Theme = "light",
    ) -> Figure:
        """Return a separate figure of `width` by `height` inches.

        Without `height`, its proportions are those in a page.

        Raises:
            RunError: if width or height is not from `SMALLEST` to `LARGEST`, or if the labels have no room.
        """
        from matplotlib.figure import Figure

        if height is None:
            height = width * self.height / self.width
        _check_inches("width", width)
        _check_inches("height", height)

        narrow = {
            "legend.columnspacing": 1.0,
            "legend.handlelength": 1.5,
            "legend.handletextpad": 0.5,
            "font.family": ["DejaVu Sans", *_installed_fallbacks()],
        }
        with _matplotlib_settings(theme_colours(theme), FILE_FONT_SIZE, narrow):
            figure = Figure(figsize=(width, height), layout="constrained")
            self.paint(figure)
            warnings.filterwarnings(
                "error", message="constrained_layout not applied", category=UserWarning
            )
            try:
                # This creates the ticks with these settings; ticks created later would have the caller's.
                figure.draw_without_rendering()
            except UserWarning as error:
                raise RunError(
                    f"{width:g} by {height:g} inches have no room for the figure's labels; make the figure larger"
                ) from error
        return figure


def _check_inches(side: str, inches: float) -> None:
    if not SMALLEST <= inches <= LARGEST:
        raise RunError(
            f"the figure's {side} is {inches:g} inches, and must be {SMALLEST:g} to {LARGEST:g}; "
            "set `width` and `height` within these limits"
        )


def _installed_fallbacks() -> list[str]:
    """Return those of the fallback fonts that are installed as TrueType, the format that PDF needs."""
    from matplotlib.font_manager import fontManager

    installed = {
        font.name for font in fontManager.ttflist if font.fname.lower().endswith(".ttf")
    }
    return [name for name in _FALLBACKS if name in installed]


@contextmanager
def _matplotlib_settings(
    colours: Mapping[str, str],
    size: float,
    more: Mapping[Any, Any],
) -> Iterator[None]:
    """Set colours, font size and more settings within a `with` block, independent of the user's settings."""
    import matplotlib

    with use_colours(colours), matplotlib.rc_context(), warnings.catch_warnings():
        # Pages show text in the page's font, which has the glyphs that matplotlib's font lacks.
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_settings(colours, size))
        matplotlib.rcParams.update(more)
        yield


def _settings(colours: Mapping[str, str], size: float) -> dict[Any, Any]:
    return {
        "axes.formatter.useoffset": False,
        "svg.hashsalt": "sentbed",
        "text.usetex": False,
        # Labels have no mathematical markup: `$` is a dollar sign.
        "text.parse_math": False,
        "axes.unicode_minus": True,
        # This font is wider than those of pages: a text that fits with it fits in a page, too.
        "font.family": "DejaVu Sans",
        "font.size": size,
        "axes.labelsize": size,
        "xtick.labelsize": size - 1,
        "ytick.labelsize": size - 1,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.linewidth": 0.8,
        "axes.linewidth": 0.8,
        "xtick.major.size": 0,
        "ytick.major.size": 0,
        "xtick.major.pad": 5,
        "ytick.major.pad": 5,
        "figure.facecolor": colours["page"],
        "axes.facecolor": colours["page"],
        "text.color": colours["fg"],
        "axes.labelcolor": colours["muted"],
        "axes.edgecolor": colours["line"],
        "xtick.color": colours["muted"],
        "ytick.color": colours["muted"],
        "grid.color": colours["line"],
    }
