"""Figures as files for papers: PDF with its fonts, SVG, PNG."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentbed.errors import RunError
from sentbed.helpers import atomic_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("pdf", "svg", "png")

WIDTH = 3.3
"""Default width in inches: a column of a paper with two."""
DPI = 300

_SETTINGS: dict[Any, Any] = {
    # TrueType, so that letters stay text; many publishers refuse the default, Type 3.
    "pdf.fonttype": 42,
    # Shapes: nobody has to have the font.
    "svg.fonttype": "path",
    "svg.hashsalt": "sentbed",
}


def write_figure(figure: Figure, path: Path, title: str = "", dpi: int = DPI) -> None:
    """Write a figure in the format that the file's suffix names, in its own size.

    `title` is in the file's metadata; `dpi` is the resolution of PNG. The same figure gives the same bytes.

    Raises:
        RunError: if the suffix is none of `FORMATS`, or the file cannot be written.
    """
    import matplotlib

    form = path.suffix.lower().removeprefix(".")
    if form not in FORMATS:
        known = ", ".join(f"`.{one}`" for one in FORMATS)
        raise RunError(f"`{path}` ends in {path.suffix!r}, which is no format of figures; end it in {known}")
    undated: dict[str, dict[str, None]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}
    with matplotlib.rc_context(), atomic_file(path) as stream:
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        figure.savefig(stream, format=form, dpi=dpi, metadata={"Title": title, **undated[form]})
