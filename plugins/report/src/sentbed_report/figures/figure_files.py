"""Writing of figures to files for papers: PDF with embedded fonts, SVG, PNG."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentbed.errors import RunError
from sentbed.helpers import atomic_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 3.3
"""Default width of a figure in inches: the width of a column in a two-column paper."""

DPI = 300
"""Default resolution of PNG files, in dots per inch."""

_UNDATED: dict[str, dict[str, None]] = {
    "pdf": {"CreationDate": None},
    "svg": {"Date": None},
    "png": {},
}
"""Format -> metadata to leave out, such as the date; then the same figure gives the same bytes."""

_SETTINGS: dict[Any, Any] = {
    # Fonts are embedded as TrueType (42); many publishers refuse the default, Type 3.
    "pdf.fonttype": 42,
    "svg.hashsalt": "sentbed",
}


def write_figure(
    figure: Figure,
    path: Path,
    title: str = "",
    dpi: int = DPI,
) -> None:
    """Write a figure to a file, in the format that the file's suffix names.

    `title` is written into the file's metadata; `dpi` is the resolution of PNG in dots per inch.

    Raises:
        RunError: if the suffix is not `.pdf`, `.svg` or `.png`, or if the file cannot be written.
    """
    import matplotlib

    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in _UNDATED:
        choices = ", ".join(f"`.{choice}`" for choice in _UNDATED)
        raise RunError(
            f"`{path}` ends in {path.suffix!r}, which is no figure format; use one of {choices}"
        )

    metadata = {"Title": title, **_UNDATED[suffix]}
    with matplotlib.rc_context(), atomic_file(path) as stream:
        # Settings of the caller, such as `savefig.bbox`, must not change the file.
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        figure.savefig(
            stream,
            format=suffix,
            dpi=dpi,
            metadata=metadata,
        )
