"""Locks between processes that work on the same study."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sentbed.errors import RunError
from sentbed.paths import cannot_write


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Hold the lock file `path`; yields whether it was free. The system frees it when a process dies.

    Raises:
        RunError: where the file cannot be made or written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise RunError(cannot_write(path, error)) from error
    try:
        yield _take(handle, shared=False)
    finally:
        os.close(handle)


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock file `path`; makes nothing. One that cannot be read is not locked."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        # Two that look at once do not see each other.
        return not _take(handle, shared=True)
    finally:
        os.close(handle)


def _take(handle: int, shared: bool) -> bool:
    """Lock an open file until it is closed; returns False where another process has it."""
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # Not every file system has locks.
        pass
    return True
