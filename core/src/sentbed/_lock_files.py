"""Lock files between processes that work on the same run or study."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sentbed._files import cannot_write
from sentbed.errors import RunError


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Hold the lock file `path`; yield whether it was free. The lock is released if the process dies.

    Raises:
        RunError: if the file cannot be created or written.
    """
    # Imported here: most commands lock nothing.
    from filelock import FileLock, Timeout

    lock, free = FileLock(path, timeout=0), True
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        free = False
    except OSError as error:
        # Not every file system supports locks.
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise RunError(cannot_write(path, error)) from error
    try:
        yield free
    finally:
        lock.release()


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock file `path`, without creating it; False if it cannot be written."""
    try:
        if not path.exists():
            return False
        with locked(path) as free:
            return not free
    except (OSError, RunError):
        return False
