"""Writing of figures to files for papers: PDF with embedded fonts, SVG, PNG."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sentbed.errors import RunError
from sentbed.helpers import atomic_file

from sentbed_report.figures.plot import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 300
"""Resolution of PNG files, in dots per inch."""

_DATES = {"pdf": "CreationDate", "svg": "Date", "png": "Creation Time"}
"""Format -> name of the date in its metadata, which is left out: the same figure gives the same bytes."""


def write_figure(
    figure: Figure,
    path: Path,
    title: str = "",
) -> None:
    """Write a figure to a file, in the format that the file's suffix names.

    `title` is written into the file's metadata.

    Raises:
        RunError: if the suffix is not `.pdf`, `.svg` or `.png`, or if the file cannot be written.
    """
    form = path.suffix.lower().removeprefix(".")
    if form not in _DATES:
        raise RunError(
            f"`{path}` ends in {path.suffix!r}, which is no figure format; use `.pdf`, `.svg` or `.png`"
        )
    metadata = {"Title": title, _DATES[form]: None}
    with style(), atomic_file(path) as stream:
        figure.savefig(stream, format=form, dpi=DPI, metadata=metadata)
