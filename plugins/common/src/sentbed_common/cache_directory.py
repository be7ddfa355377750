"""The directory in which sentbed caches files on this machine."""

from __future__ import annotations

import os
from pathlib import Path

CACHE_VARIABLE = "SENTBED_CACHE"
CONVERTED_WEIGHTS = "converted-weights"
"""Subdirectory for weights that were converted from pickles."""


def cache_root() -> Path:
    """Return the directory that `SENTBED_CACHE` names, or `sentbed` in the user's cache directory."""
    if value := os.environ.get(CACHE_VARIABLE):
        return Path(value).expanduser()

    from platformdirs import user_cache_path

    return user_cache_path("sentbed", appauthor=False, opinion=False)
