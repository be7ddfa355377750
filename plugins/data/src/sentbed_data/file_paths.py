"""Paths in the fields of recipes."""

from __future__ import annotations

from pathlib import Path

from sentbed import DataError, locate


def as_tuple(path: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return a tuple of the paths or names in a recipe field, which may be a single one."""
    if isinstance(path, str):
        return (path,)
    return path


def local_file(location: str) -> Path:
    """Return the file that `location` names. Raises `DataError` if it does not exist or is a directory."""
    path = locate(location)
    if not path.is_file():
        raise DataError(
            "this is a directory; expected a file; name the file in it", path
        )

    return path
