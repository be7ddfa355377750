"""Locks between processes that work on the same run or study."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

from sentbed._paths import cannot_write
from sentbed.errors import RunError


@contextmanager
def held(open_it: Callable[[], int]) -> Iterator[bool]:
    """Hold a lock on what `open_it` opens; yields whether it was free. A process that dies gives it up."""
    if fcntl is None:
        yield True
        return
    handle = open_it()
    try:
        yield _take(handle, fcntl.LOCK_EX)
    finally:
        os.close(handle)


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Hold the lock file `path`; yields whether it was free.

    Raises:
        RunError: where the file cannot be made or written.
    """

    def made() -> int:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise RunError(cannot_write(path, error)) from error

    with held(made) as free:
        yield free


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock file `path`; makes nothing. One that cannot be read is not locked."""
    if fcntl is None:
        return False
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        # Two that look at once do not see each other.
        return not _take(handle, fcntl.LOCK_SH)
    finally:
        os.close(handle)


def _take(handle: int, kind: int) -> bool:
    """Lock an open file until it is closed; returns False where another process has it."""
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # Not every file system has locks.
        pass
    return True
