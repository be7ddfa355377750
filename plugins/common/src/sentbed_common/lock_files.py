"""Test whether another process holds a lock file."""

from __future__ import annotations

from pathlib import Path

from sentbed.errors import RunError
from sentbed.tools import locked


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock file `path`. False if there is no such file or it cannot be written."""
    try:
        if not path.exists():
            return False

        with locked(path) as free:
            return not free
    except (OSError, RunError):
        return False
