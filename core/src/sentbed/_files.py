"""Files: hashes, atomic writing, and locks."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from sentbed.errors import DataError, RunError

TEMPORARY = ".tmp"
"""Suffix of the names of hidden files and directories that replace another one when they are complete."""


def read_json(path: Path) -> Any:
    """Return the content of a JSON file. Raises `OSError`, or `ValueError` if it is not JSON."""
    return json.loads(path.read_bytes())


def sha256(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file, or of the names and contents of all files below a directory."""
    import hashlib

    digest = hashlib.sha256()
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
    for file in files:
        if path.is_dir():
            digest.update(file.relative_to(path).as_posix().encode() + b"\0")
        with file.open("rb") as stream:
            hashlib.file_digest(stream, lambda: digest)
    return digest.hexdigest()


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file for writing; at the end of the block, it replaces `path` atomically.

    Raises:
        RunError: if the disk is full or `path` cannot be written. What was at `path` does not change then.
    """
    temporary = _temporary(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("x+b") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        raise RunError(cannot_write(path, error)) from error
    finally:
        # On a read-only disk, this fails too; its error would hide the first one.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a file atomically, as `atomic_file` does.

    Raises:
        RunError: if the disk is full or `path` cannot be written. What was at `path` does not change then.
    """
    if isinstance(content, str):
        content = content.encode()
    with atomic_file(path) as stream:
        stream.write(content)


def write_directory(path: Path, fill: Callable[[Path], None]) -> None:
    """Call `fill` with a new directory, into which it writes; then replace `path` by this directory.

    Raises:
        RunError: if the disk is full or `path` cannot be written. What was at `path` does not change then.
    """
    temporary, old = _temporary(path), _temporary(path)
    try:
        temporary.mkdir(parents=True)
        try:
            fill(temporary)
            for file in temporary.rglob("*"):
                if file.is_file():
                    _flush(file)
            if path.exists():
                path.rename(old)
            temporary.rename(path)
        finally:
            remove_directory(temporary)
            if old.exists() and not path.exists():
                old.rename(path)
            remove_directory(old)
    except OSError as error:
        raise RunError(cannot_write(path, error)) from error


def _flush(file: Path) -> None:
    """Write a file from the buffers of the system to the disk, so that it survives a loss of power."""
    with file.open("rb") as stream:
        os.fsync(stream.fileno())


def _temporary(path: Path) -> Path:
    """Return a new path beside another one, for a hidden file or directory that takes its place."""
    return path.with_name(f".{path.name}.{os.urandom(4).hex()}{TEMPORARY}")


def remove_directory(path: Path) -> None:
    """Remove a directory with its content, or the file at this path. Errors are ignored."""
    import shutil

    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        path.unlink()


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Acquire the lock file `path`, and yield whether that succeeded; release the lock at the end of the block.

    The system releases a lock if its process dies.

    Raises:
        RunError: if the file cannot be created or written.
    """
    # Imported here, since most commands lock nothing.
    from filelock import FileLock, Timeout

    lock = FileLock(path, timeout=0)
    acquired = True
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        acquired = False
    except OSError as error:
        raise RunError(cannot_write(path, error)) from error
    try:
        yield acquired
    finally:
        lock.release()


def cannot_write(path: Path, error: OSError) -> str:
    """Return the message for a path that cannot be written, or a disk that is full."""
    advice = "choose another place"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        advice = "free some space, or choose another place"
    return f"cannot write `{path}`: {error.strerror or error}; nothing that was there is lost; {advice}"


def read_lines(path: Path) -> list[str]:
    """Return the lines of a UTF-8 file. Raises `DataError` if it cannot be read."""
    try:
        content = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise DataError(
            f"cannot read the file: {error.strerror}; check the path", path
        ) from error
    except UnicodeDecodeError as error:
        raise DataError("the file is not UTF-8; convert it", path) from error
    if not content:
        return []
    # `splitlines` would also split at characters such as U+0085, which a template may have.
    return [line.removesuffix("\r") for line in content.removesuffix("\n").split("\n")]
