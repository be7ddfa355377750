"""The data directories of evaluators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from sentbed import DataError, locate
from sentbed.helpers import DATA_VARIABLE, data_root


def data_directory(data_dir: str | None, holds: str, name: str) -> Path:
    """Return the directory `data_dir`, or the one in `SENTBED_DATA`.

    For messages, `holds` describes the data in it and `name` is its name in `sentbed data`. Raises
    `DataError`.
    """
    base = locate(data_dir) if data_dir is not None else data_root()
    if base is None:
        raise DataError(
            f"no data directory is known; set `data_dir`, or set `{DATA_VARIABLE}` to the directory that "
            f"holds `{holds}` (`sentbed data get {name}` downloads it)"
        )
    return base


def find_root(
    data_dir: str | None,
    places: Sequence[str],
    entries: Iterable[str],
    what: str,
    name: str,
) -> Path:
    """Return the first of `places` below the data directory that has one of `entries`, files or folders.

    `what` describes them in a message. Raises `DataError` if there is none.
    """
    base = data_directory(data_dir, places[0], name)
    entries = tuple(entries)
    for place in places:
        if any((base / place / entry).exists() for entry in entries):
            return base / place
    below = ", ".join(f"`{place}`" for place in places if place != ".")
    raise DataError(
        f"`{base}` has no {what}: `{entries[0]}` or another task's was looked for in it and below {below}; "
        f"`sentbed data get {name}` downloads it, or set `data_dir` or `{DATA_VARIABLE}` to where it is"
    )
