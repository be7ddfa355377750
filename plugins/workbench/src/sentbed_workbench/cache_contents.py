"""Contents of the cache of vectors: inspection and removal."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import attrs
from sentbed.errors import DataError, RunError
from sentbed.helpers import read_json
from sentbed_common import CONVERTED_WEIGHTS, cache_root

from sentbed_workbench.vector_cache import ABOUT, HEADER_SIZE, VectorCache


@attrs.frozen
class Held:
    """Content of the store for one space."""

    about: Mapping[str, Any]
    vectors: int
    size: int
    """Size in bytes."""
    used: float
    """Time of the last use, in seconds since the epoch."""


def held(store: VectorCache) -> list[Held]:
    """Return the content of the store, most recently used space first."""
    spaces = []
    for directory, group in groupby(sorted(store.segments()), lambda item: item[0].parent):
        states = [state for _, state in group]
        about = _about(directory / ABOUT)
        size = sum(state.st_size for state in states)
        row = 4 * about["width"] if about else 0
        vectors = (size - HEADER_SIZE * len(states)) // row if row else 0
        spaces.append(Held(about, vectors, size, max(state.st_mtime for state in states)))
    return sorted(spaces, key=lambda space: -space.used)


def converted_weights() -> int:
    """Return the size in bytes of the weights that were converted from pickles and are kept beside."""
    files = (cache_root() / CONVERTED_WEIGHTS).rglob("*")
    return sum(path.stat().st_size for path in files if path.is_file())


def clear(store: VectorCache, older_than: float = 0.0) -> int:
    """Remove files not used for `older_than` days; return the number of bytes removed.

    Raises:
        RunError: if a file cannot be removed.
    """
    latest = time.time() - older_than * 86400 if older_than else math.inf
    old = [(path, state) for path, state in store.segments() if state.st_mtime <= latest]
    try:
        for path, _ in old:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise RunError(f"cannot remove `{path}`: {error.strerror}; look at its permissions") from error
    store.tidy(0)
    return sum(state.st_size for _, state in old)


def _about(path: Path) -> Mapping[str, Any]:
    try:
        about = read_json(path)
        return about if isinstance(about["width"], int) else {}
    except (OSError, ValueError, KeyError, TypeError, DataError):
        return {}
