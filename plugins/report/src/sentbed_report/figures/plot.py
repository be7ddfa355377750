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
"""Size of the font in a page, in units of the view box, which are CSS pixels at the original width."""

FILE_FONT_SIZE = 8
"""Size of the font of a separate figure, in points, as in captions of two-column papers."""

SMALLEST, LARGEST = 0.5, 50.0
"""Smallest and largest width and height of a separate figure, in inches."""

_LONGEST_LABEL = 800
"""Largest number of characters of a description for screen readers: title, then numbers."""

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
"""Fonts for characters that DejaVu Sans lacks, in particular Chinese, Japanese and Korean ones."""


def _joined(sentences: str | Sequence[str]) -> str:
    if isinstance(sentences, str):
        return sentences
    return " ".join(filter(None, sentences))


@attrs.frozen
class Plot:
    """A figure that is drawn on demand; its title and caption are plain text."""

    title: str
    caption: str = attrs.field(converter=_joined)
    """Caption; a sequence of sentences is joined without the empty ones."""
    height: int
    """Height in a page, in CSS pixels."""
    paint: Callable[[Figure], None]
    """Function that draws into an empty figure, with the colours that `colour` returns."""
    width: int = 440

    def element(self, prefix: str) -> str:
        """Return an `<svg>` element for a page, as safe markup, whose ids begin with `prefix`.

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
            # With a layout engine, saving would compute the layout, and draw the figure, twice.
            ConstrainedLayoutEngine().execute(figure)
            undated = {"Date": None, "Creator": None}
            figure.savefig(buffer, format="svg", transparent=True, metadata=undated)
            label = label_text(f"{self.title}. {describe(figure)}", _LONGEST_LABEL)
        return page_svg(buffer.getvalue(), label, prefix)

    def figure(
        self, width: float, height: float | None = None, theme: Theme = "light"
    ) -> Figure:
        """Return a separate figure of a size in inches; by default it has the proportions of the one in a page.

        Raises:
            RunError: if width or height is not from `SMALLEST` to `LARGEST`, or leaves no room for labels.
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
                # Ticks are created here, with these settings, and not later with the settings of the caller.
                figure.draw_without_rendering()
            except UserWarning as error:
                raise RunError(
                    f"{width:g} by {height:g} inches have no room for the figure's labels; make it larger"
                ) from error
        return figure


def _check_inches(side: str, inches: float) -> None:
    if not SMALLEST <= inches <= LARGEST:
        raise RunError(
            f"the figure's {side} is {inches:g} inches, and must be {SMALLEST:g} to {LARGEST:g}; "
            "set `width` and `height` so that it is"
        )


def _installed_fallbacks() -> list[str]:
    """Return the fallback fonts that are installed as TrueType, which PDF needs."""
    from matplotlib.font_manager import fontManager

    installed = {
        font.name for font in fontManager.ttflist if font.fname.lower().endswith(".ttf")
    }
    return [name for name in _FALLBACKS if name in installed]


@contextmanager
def _matplotlib_settings(
    colours: Mapping[str, str], size: float, more: Mapping[Any, Any]
) -> Iterator[None]:
    """Draw with these colours and this font size, independent of the user's matplotlib settings."""
    import matplotlib

    with use_colours(colours), matplotlib.rc_context(), warnings.catch_warnings():
        # Text of a page is shown in the page's font, which has the glyphs that matplotlib's font lacks.
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
        # No mathematical markup: a `$` in a label is a dollar sign.
        "text.parse_math": False,
        "axes.unicode_minus": True,
        # Wider than the fonts of pages, so that texts which fit here fit there.
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
