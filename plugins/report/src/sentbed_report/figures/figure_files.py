"""Writing of figures to files for papers: PDF with embedded fonts, SVG, PNG."""

from __future__ import annotations

import re
import warnings
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
    # Text is written as paths, so that readers do not need the font.
    "svg.fonttype": "path",
    "svg.hashsalt": "sentbed",
}


def write_figure(
    figure: Figure,
    path: Path,
    title: str = "",
    dpi: int = DPI,
) -> str:
    """Write a figure to a file, in the format that the file's suffix names.

    `title` is written into the file's metadata; `dpi` is the resolution of PNG in dots per inch. The same
    figure gives the same bytes. The returned sentence is on characters that no installed font has, which are
    drawn as boxes; it is empty if there are none.

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
    with (
        matplotlib.rc_context(),
        atomic_file(path) as stream,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        # Settings of the caller, such as `savefig.bbox`, must not change the file.
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        figure.savefig(
            stream,
            format=suffix,
            dpi=dpi,
            metadata=metadata,
        )

    letters = _missing_letters(caught)
    if not letters:
        return ""
    return (
        f"no installed font has the characters {letters!r} of `{path}`; install one that has, "
        "such as Noto Sans SC, as a .ttf file"
    )


def _missing_letters(caught: list[warnings.WarningMessage]) -> str:
    """Return the characters for which matplotlib warned of missing glyphs; issue all other warnings again."""
    letters = ""
    for warning in caught:
        glyph = re.match(r"Glyph (\d+) .*missing from", str(warning.message))
        if glyph is None:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
        elif chr(int(glyph[1])) not in letters:
            letters += chr(int(glyph[1]))
    return letters
