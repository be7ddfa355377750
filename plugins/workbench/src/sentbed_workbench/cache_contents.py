"""Contents of the cache of vectors: summaries of its spaces, and removal of files.

A space holds the vectors of equal encoders; see `vector_cache`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import attrs
from sentbed.errors import DataError, RunError
from sentbed.helpers import read_json

from sentbed_workbench.vector_cache import ABOUT, HEADER_SIZE, VectorCache


@attrs.frozen
class SpaceSummary:
    """Summary of the cached vectors of one space."""

    about: Mapping[str, Any]
    """Description of the space's encoders; empty if it cannot be read."""
    vectors: int
    """Number of vectors."""
    size: int
    """Size in bytes."""
    used: float
    """Time of the last use, in seconds since the epoch."""


def contents(store: VectorCache) -> list[SpaceSummary]:
    """Return a summary of each space in the cache, the most recently used first."""
    spaces = []
    files = sorted(store.segments())
    for directory, group in groupby(files, lambda item: item[0].parent):
        size = vectors = 0
        used = 0.0
        about = _about(directory / ABOUT)
        for _, state in group:
            size += state.st_size
            used = max(used, state.st_mtime)
            if about:
                vectors += (state.st_size - HEADER_SIZE) // (4 * about["width"])

        spaces.append(SpaceSummary(about, vectors, size, used))

    return sorted(spaces, key=lambda space: -space.used)


def totals(spaces: Iterable[SpaceSummary]) -> tuple[int, int]:
    """Return the size of some spaces in bytes, and the number of their vectors."""
    size = vectors = 0
    for space in spaces:
        size += space.size
        vectors += space.vectors
    return size, vectors


def clear(store: VectorCache, older_than: float = 0.0) -> int:
    """Remove the files that were not used for `older_than` days; 0 means all files. Return the bytes removed.

    Raises:
        RunError: if a file cannot be removed.
    """
    latest = math.inf
    if older_than:
        latest = time.time() - older_than * 86400

    removed = 0
    for path, state in list(store.segments()):
        if state.st_mtime > latest:
            continue
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise RunError(
                f"cannot remove `{path}`: {error.strerror}; look at its permissions"
            ) from error

        removed += state.st_size

    store.tidy(0)
    return removed


def _about(path: Path) -> Mapping[str, Any]:
    """Return the description of a space, or an empty one if it cannot be read or has no width."""
    try:
        about: Mapping[str, Any] = read_json(path)
        has_width = isinstance(about["width"], int) and about["width"] > 0
    except (OSError, ValueError, KeyError, TypeError, DataError):
        return {}
    if not has_width:
        return {}
    return about
