"""Plots by matplotlib: as SVG that lives inside a page, or as figures of their own."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from xml.etree import ElementTree as ET

import attrs
from sentbed.errors import RunError

from sentbed_report.page_template import resource

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

FONT_SIZE = 12
"""In units of the view box, which are CSS pixels where the figure is shown at its own width."""

FILE_FONT_SIZE = 8
"""Of a figure of its own, in points: that of captions in two-column papers."""

SIZES = 0.5, 50.0
"""Least and largest width and height of a figure of its own, in inches."""

_FALLBACKS = (
    *("Noto Sans SC", "Noto Sans JP", "Noto Sans KR", "Noto Sans TC", "Noto Sans"),
    *("Arial Unicode MS", "SimHei", "Malgun Gothic", "NanumGothic", "Droid Sans Fallback"),
)
"""Fonts for letters that DejaVu Sans lacks, Chinese, Japanese and Korean ones above all."""

_LETTERS = 440 / FONT_SIZE
"""Width of a page's plot in units of its font size."""

Theme: TypeAlias = Literal["light", "dark"]

_VARIABLES = {
    name: f"#0101{index:02x}"
    for index, name in enumerate(("fg", "muted", "line", "page", "c0", "c1", "c2", "c3", "c4", "c5"), start=1)
}
_PALETTE = {value: f"var(--{name})" for name, value in _VARIABLES.items()}

_COLOURS: ContextVar[Mapping[str, str]] = ContextVar("colours", default=_VARIABLES)
"""Colours of the figure that is being drawn."""


def _settings(colours: Mapping[str, str], size: float) -> dict[Any, Any]:
    return {
        "axes.formatter.useoffset": False,
        "svg.hashsalt": "sentbed",
        "text.usetex": False,
        # A `$` in a label is a dollar.
        "text.parse_math": False,
        "axes.unicode_minus": True,
        # Wider than what pages use, so what fits here fits there.
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
        "text.color": colours["fg"],
        "axes.labelcolor": colours["muted"],
        "axes.edgecolor": colours["line"],
        "xtick.color": colours["muted"],
        "ytick.color": colours["muted"],
        "grid.color": colours["line"],
    }


def colour(name: str) -> str:
    """Return what to draw with, while a figure is painted: `fg muted line page c0 ... c5`.

    In a page it becomes `var(--NAME)`, elsewhere it is the theme's colour.
    """
    return _COLOURS.get()[name]


def label_text(text: str, longest: int = 40) -> str:
    """Return text that XML can hold, in one line, shortened with an ellipsis."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def legend_above(axes: Axes, columns: int, handles: Sequence[Artist] | None = None) -> None:
    """Name the lines above a plot; see `fit_legend`."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    look: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0}
    if handles is not None:
        look["handles"] = handles
    fit_legend(figure, columns, lambda number: axes.legend(**look, frameon=False, ncols=number))


def fit_legend(figure: Figure, columns: int, make: Callable[[int], Legend]) -> None:
    """Make a legend with as many columns as a page's plot has, or as many as fit into a narrower figure."""
    import matplotlib

    wide = figure.get_figwidth() * 72 / float(matplotlib.rcParams["font.size"]) > _LETTERS - 0.01
    for number in range(columns, 0, -1):
        legend = make(number)
        if wide or number == 1 or legend.get_window_extent().width < 0.88 * figure.bbox.width:
            return
        legend.remove()


@attrs.frozen
class Drawing:
    """A plot that is drawn when it is asked for."""

    name: str
    """Makes its ids unique in a page."""
    label: str
    """What a screen reader says."""
    width: int
    """Width and height in a page, in CSS pixels."""
    height: int
    paint: Callable[[Figure], None]
    """Draws into an empty figure; colours are those of `colour`."""

    @property
    def svg(self) -> str:
        """An `<svg>` element for a page; the same drawing gives the same text."""
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        buffer = io.StringIO()
        with _drawing(_VARIABLES, FONT_SIZE, {"svg.fonttype": "none"}):
            figure = Figure(figsize=(self.width / 72, self.height / 72))
            self.paint(figure)
            # The figure's own engine would lay it out twice, and draw it twice.
            ConstrainedLayoutEngine().execute(figure)
            figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        return _embed(buffer.getvalue(), self.name, self.label)

    def figure(self, width: float, height: float | None = None, theme: Theme = "light") -> Figure:
        """Return a figure of its own, in inches; its height is by default in proportion to that in a page.

        Raises:
            RunError: if its width or height is not in `SIZES`, or has no room for the labels.
        """
        from matplotlib.figure import Figure

        colours = theme_colours(theme)
        size = width, width * self.height / self.width if height is None else height
        for what, inches in zip(("width", "height"), size, strict=True):
            if not SIZES[0] <= inches <= SIZES[1]:
                raise RunError(
                    f"the figure's {what} is {inches:g} inches, and must be {SIZES[0]:g} to {SIZES[1]:g}; "
                    "set `width` and `height` so that it is"
                )
        narrow = {
            "legend.columnspacing": 1.0,
            "legend.handlelength": 1.5,
            "legend.handletextpad": 0.5,
            "font.family": ["DejaVu Sans", *_fallback_fonts()],
        }
        with _drawing(colours, FILE_FONT_SIZE, narrow):
            figure = Figure(figsize=size, layout="constrained", facecolor=colours["page"])
            self.paint(figure)
            for axes in figure.axes:
                axes.set_facecolor(colours["page"])
            warnings.filterwarnings("error", message="constrained_layout not applied", category=UserWarning)
            try:
                # Ticks are made here, with these settings, and not when it is saved with others.
                figure.draw_without_rendering()
            except UserWarning as error:
                raise RunError(
                    f"{size[0]:g} by {size[1]:g} inches have no room for the figure's labels; make it larger"
                ) from error
        return figure


def _fallback_fonts() -> list[str]:
    """Return those fonts for letters beyond DejaVu Sans that are installed as TrueType, as PDF needs it."""
    from matplotlib.font_manager import fontManager

    there = {font.name for font in fontManager.ttflist if font.fname.lower().endswith(".ttf")}
    return [name for name in _FALLBACKS if name in there]


@contextmanager
def _drawing(colours: Mapping[str, str], size: float, more: Mapping[Any, Any]) -> Iterator[None]:
    """Draw with these colours and this size of font, whatever matplotlib's settings are."""
    import matplotlib

    before = _COLOURS.set(colours)
    try:
        with matplotlib.rc_context(), warnings.catch_warnings():
            # The page's font shows the glyphs that the font measured with lacks.
            warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
            matplotlib.rcdefaults()
            matplotlib.rcParams.update({**_settings(colours, size), **more})
            yield
    finally:
        _COLOURS.reset(before)


def theme_colours(theme: Theme) -> dict[str, str]:
    """Return the colours of a theme of the page, on white where it is light: paper is."""
    style = resource("sentbed_report.page", "style.css")
    rule = {"light": ":root", "dark": ':root[data-theme="dark"]'}[theme]
    found = re.search(rf"^{re.escape(rule)} {{(.*?)}}", style, re.DOTALL | re.MULTILINE)
    assert found is not None
    known = dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", found[1]))
    page = "#ffffff" if theme == "light" else known["page"]
    return {name: known[name] for name in _VARIABLES} | {"page": page}


def _embed(text: str, name: str, label: str) -> str:
    root = ET.fromstring(text)
    _drop(root)
    referenced = set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", text))
    ids = {old: f"{name}-{index}" for index, old in enumerate(sorted(referenced))}
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        for key, value in list(element.attrib.items()):
            del element.attrib[key]
            if key == "id" and value not in ids:
                continue
            element.set(key.rpartition("}")[2], _attribute(key.rpartition("}")[2], value, ids))
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.set("role", "img")
    root.set("aria-label", label)
    return ET.tostring(root, encoding="unicode", short_empty_elements=True)


def _drop(element: ET.Element) -> None:
    """Remove what is for stand-alone files; the style sheet would apply to the whole page."""
    for child in list(element):
        if child.tag.rpartition("}")[2] in ("metadata", "style"):
            element.remove(child)
        else:
            _drop(child)
    if element.text is not None and not element.text.strip():
        element.text = None
    element.tail = "\n" if element.tail is not None else None


def _attribute(key: str, value: str, ids: dict[str, str]) -> str:
    if key == "id":
        return ids[value]
    if key == "href":
        return "#" + ids[value.removeprefix("#")]
    if key == "style":
        return re.sub(r"#0101[0-9a-f]{2}", lambda found: _PALETTE[found[0]], value)
    if key == "clip-path":
        return re.sub(r"#([^)]+)", lambda found: "#" + ids[found[1]], value)
    if key in ("d", "x", "y", "points", "transform"):
        value = re.sub(r"-?\d+\.\d+", lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), value)
        value = re.sub(r"\s+", " ", value).strip()
        # A line to where it starts draws a round cap: a point of a scatter in half the characters.
        return re.sub(r"M (\S+) (\S+) L \1 \2(?= |$)", r"M\1 \2h0", value)
    return value
