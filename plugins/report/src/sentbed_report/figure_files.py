"""Figures as files for papers: PDF with its fonts, SVG, PNG."""

from __future__ import annotations

import re
import warnings
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


def write_figure(figure: Figure, path: Path, title: str = "", dpi: int = DPI) -> str:
    """Write a figure in the format that the file's suffix names, in its own size.

    `title` is in the file's metadata; `dpi` is the resolution of PNG. The same figure gives the same bytes.
    Returns a sentence on letters that no font of the figure has, which are boxes; empty if there are none.

    Raises:
        RunError: if the suffix is none of `FORMATS`, or the file cannot be written.
    """
    import matplotlib

    form = path.suffix.lower().removeprefix(".")
    if form not in FORMATS:
        known = ", ".join(f"`.{one}`" for one in FORMATS)
        raise RunError(f"`{path}` ends in {path.suffix!r}, which is no format of figures; end it in {known}")
    undated: dict[str, dict[str, None]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}
    with matplotlib.rc_context(), atomic_file(path) as stream, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        figure.savefig(stream, format=form, dpi=dpi, metadata={"Title": title, **undated[form]})
    missing: dict[str, None] = {}
    for one in told:
        if found := re.match(r"Glyph (\d+) .*missing from", str(one.message)):
            missing[chr(int(found[1]))] = None
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    if not missing:
        return ""
    letters = "".join(missing)
    return (
        f"no installed font has the letters {letters!r} of `{path}`; install one that has, "
        "such as Noto Sans SC, as a .ttf file"
    )
