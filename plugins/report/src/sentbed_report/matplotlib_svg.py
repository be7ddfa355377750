"""Matplotlib figures as SVG that lives inside a page: its text, its font, its colours, unique ids."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FONT_SIZE = 12
"""In units of the view box, which are CSS pixels where the figure is shown at its own width."""

_VARIABLES = {
    name: f"#0101{index:02x}"
    for index, name in enumerate(("fg", "muted", "line", "page", "c0", "c1", "c2", "c3", "c4", "c5"), start=1)
}
_PALETTE = {value: f"var(--{name})" for name, value in _VARIABLES.items()}

_SETTINGS: dict[Any, Any] = {
    "axes.formatter.useoffset": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "sentbed",
    "text.usetex": False,
    # A `$` in a label is a dollar.
    "text.parse_math": False,
    "axes.unicode_minus": True,
    # Wider than what pages use, so what fits here fits there.
    "font.family": "DejaVu Sans",
    "font.size": FONT_SIZE,
    "axes.labelsize": FONT_SIZE,
    "xtick.labelsize": FONT_SIZE - 1,
    "ytick.labelsize": FONT_SIZE - 1,
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
    "text.color": _VARIABLES["fg"],
    "axes.labelcolor": _VARIABLES["muted"],
    "axes.edgecolor": _VARIABLES["line"],
    "xtick.color": _VARIABLES["muted"],
    "ytick.color": _VARIABLES["muted"],
    "grid.color": _VARIABLES["line"],
}


def colour(name: str) -> str:
    """Return what to draw with to get the page's `var(--NAME)`: `fg muted line page c0 ... c5`."""
    return _VARIABLES[name]


def label_text(text: str, longest: int = 40) -> str:
    """Return text that XML can hold, in one line, shortened with an ellipsis."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def draw(name: str, label: str, width: int, height: int, paint: Callable[[Figure], None]) -> str:
    """Return an `<svg>` element for a page.

    `name` makes its ids unique in the page, `label` is what a screen reader says, `width` and `height` are
    CSS pixels, `paint` draws into the empty figure. The same drawing gives the same text.
    """
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    buffer = io.StringIO()
    with matplotlib.rc_context(), warnings.catch_warnings():
        # The page's font shows the glyphs that the font measured with lacks.
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        figure = Figure(figsize=(width / 72, height / 72))
        paint(figure)
        # The figure's own engine would lay it out twice, and draw it twice.
        ConstrainedLayoutEngine().execute(figure)
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _embed(buffer.getvalue(), name, label)


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
