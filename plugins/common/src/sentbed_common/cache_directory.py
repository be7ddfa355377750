"""The directory in which sentbed caches files on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from sentbed import RunError

CACHE_VARIABLE = "SENTBED_CACHE"


def cache_root() -> Path:
    """Return the directory that `SENTBED_CACHE` names, or `sentbed` in the user's cache directory.

    Raises:
        RunError: if `SENTBED_CACHE` is in the home directory of an unknown user.
    """
    if value := os.environ.get(CACHE_VARIABLE):
        try:
            return Path(value).expanduser()
        except RuntimeError as error:
            raise RunError(
                f"`{CACHE_VARIABLE}` is {value!r}, and there is no such user; set it to another directory"
            ) from error

    from platformdirs import user_cache_path

    return user_cache_path("sentbed", appauthor=False, opinion=False)
