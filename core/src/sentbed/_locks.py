"""Locks between processes that work on the same run or study."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sentbed._paths import cannot_write
from sentbed.errors import RunError


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Hold the lock file `path`; yields whether it was free. A process that dies gives it up.

    Raises:
        RunError: where the file cannot be made or written.
    """
    # Most commands lock nothing.
    from filelock import FileLock, Timeout

    lock, free = FileLock(path, timeout=0), True
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        free = False
    except OSError as error:
        # Not every file system has locks.
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise RunError(cannot_write(path, error)) from error
    try:
        yield free
    finally:
        lock.release()


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock file `path`; makes nothing. One that cannot be written is free."""
    try:
        if not path.exists():
            return False
        with locked(path) as free:
            return not free
    except (OSError, RunError):
        return False
