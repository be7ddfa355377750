"""Files: reading with a limit of size, checksums, atomic writing, and locks."""

from __future__ import annotations

import errno
import json
import os
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from sentbed.errors import DataError, RunError, printable

LONGEST_LINE = 1 << 20
"""Largest number of bytes of a line in a text file, and of characters of a text to encode.

Also the default of the largest file that `read_file` reads as a whole.
"""

LARGEST_JSON = 1 << 30
"""Largest number of bytes of a JSON file. The record of a large study has fewer."""

_BLOCK = 1 << 20
"""Number of bytes to read at a time."""

SUMS_FILE = "checksums.json"
"""Name of the file that has the SHA-256 of every other file below its directory; see `write_sums`."""


def in_utf_16(beginning: bytes) -> bool:
    """Whether a text file that begins with these bytes is in UTF-16, by its mark, or by two Latin letters."""
    first, second = beginning[:2], beginning[2:4]
    if first in (BOM_UTF16_LE, BOM_UTF16_BE):
        return True
    return first.count(0) == 1 and second.count(0) == 1


def _unreadable(path: Path, error: OSError) -> DataError:
    """Return the error for a file that could be opened but not read; the system's error does not name it."""
    return DataError(
        f"the file cannot be read ({error.strerror}); look at its disk, or get it again",
        path,
    )


def read_file(path: Path, most: int = LONGEST_LINE) -> bytes:
    """Return the content of a file of at most `most` bytes.

    Raises:
        DataError: if the file has more bytes, or cannot be read.
        OSError: if the file cannot be opened.
    """
    content = bytearray()
    with path.open("rb") as stream:
        try:
            # Read in blocks: a single call would allocate `most` bytes even for a small file.
            while block := stream.read(min(_BLOCK, most + 1 - len(content))):
                content += block
        except OSError as error:
            raise _unreadable(path, error) from error
    if len(content) > most:
        raise DataError(
            f"the file has more than {most:,} bytes; name another, or cut it", path
        )
    return bytes(content)


def read_json(path: Path) -> Any:
    """Return the content of a JSON file of at most `LARGEST_JSON` bytes.

    Raises:
        OSError: if the file cannot be opened.
        ValueError: if it is not JSON.
        DataError: if it has more bytes, or cannot be read.
    """
    return json.loads(read_file(path, LARGEST_JSON))


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
            try:
                hashlib.file_digest(stream, lambda: digest)
            except OSError as error:
                raise _unreadable(file, error) from error
    return digest.hexdigest()


def write_sums(directory: Path, hashes: Mapping[str, str] | None = None) -> None:
    """Write the SHA-256 of every file below a directory to `checksums.json`, for `verified_sums`.

    `hashes` may have the SHA-256 of some files, by name, which are then not read.
    """
    computed_sums = hashes or {}
    sums = {}
    for path in directory.rglob("*"):
        name = path.relative_to(directory).as_posix()
        if path.is_file() and name != SUMS_FILE:
            sums[name] = computed_sums.get(name) or sha256(path)
    write_atomic(directory / SUMS_FILE, json.dumps(sums, indent=1, sort_keys=True))


def verified_sums(directory: Path) -> dict[str, str]:
    """Return the SHA-256 of each file that `write_sums` recorded, after verifying that the files have them.

    Raises:
        ValueError: if a file is missing, has changed, or cannot be read. The message names it.
    """
    try:
        sums = _read_sums(directory)
        for name, expected in sums.items():
            if not (directory / name).is_file():
                raise ValueError(f"`{name}` is missing")
            if sha256(directory / name) != expected:
                raise ValueError(f"`{name}` is not what was written")
    except OSError as error:
        raise ValueError(
            f"`{Path(error.filename or '').name}` cannot be read: {error.strerror}"
        ) from error
    except DataError as error:
        raise ValueError(str(error)) from error
    return sums


def _read_sums(directory: Path) -> dict[str, str]:
    """Return what `checksums.json` says, without verifying it. Raises `ValueError` if the file is damaged."""
    try:
        sums = read_json(directory / SUMS_FILE)
    except ValueError as error:
        raise ValueError(f"`{SUMS_FILE}` is not what was written") from error
    if not isinstance(sums, dict):
        raise ValueError(f"`{SUMS_FILE}` is not what was written")  # noqa: TRY004 - the file is at fault, no caller
    return sums


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file for writing; at the end of the block, it replaces `path` atomically.

    Raises:
        RunError: if the disk is full or `path` cannot be written. What was at `path` does not change then.
    """
    import tempfile

    path_as_named = path
    path = path.parent.resolve() / path.name
    if path.is_dir():
        raise RunError(f"`{path_as_named}` is a directory; choose another place")

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise RunError(cannot_write(path_as_named, error)) from error

    temporary = Path(name)
    try:
        with os.fdopen(handle, "w+b") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(_mode(0o666))
        temporary.replace(path)
    except OSError as error:
        raise RunError(cannot_write(path_as_named, error)) from error
    finally:
        # On a read-only disk, this fails too; its error would hide the first one.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a file atomically, as `atomic_file` does. Control characters of a text are escaped by `printable`.

    Raises:
        RunError: if the disk is full or `path` cannot be written. What was at `path` does not change then.
    """
    if isinstance(content, str):
        content = printable(content).encode()
    with atomic_file(path) as stream:
        stream.write(content)


def write_directory(path: Path, fill: Callable[[Path], None]) -> None:
    """Call `fill` with a new directory, into which it writes; then replace `path` by this directory.

    Raises:
        RunError: if the disk is full or `path` cannot be written. What was at `path` does not change then.
    """
    import shutil
    import tempfile

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        old = temporary.with_name(temporary.name + ".old")
        try:
            fill(temporary)
            for written in (temporary, *temporary.rglob("*")):
                permissions = 0o777 if written.is_dir() else 0o666
                written.chmod(_mode(permissions))
            if path.exists():
                path.rename(old)
            temporary.rename(path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
            if old.exists() and not path.exists():
                old.rename(path)
            shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise RunError(cannot_write(path, error)) from error


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

    The system releases a lock if its process dies. On a file system without locks, the block runs as if the lock
    had been acquired.

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
        # If the file system does not support locks, the caller goes on without one.
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise RunError(cannot_write(path, error)) from error
    try:
        yield acquired
    finally:
        lock.release()


def cannot_write(path: Path, error: OSError) -> str:
    """Return the message for a path that cannot be written, or a disk that is full."""
    advice = "choose another place"
    full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    if error.errno in full or "No space left" in str(error):
        advice = "free some space, or choose another place"
    return f"cannot write `{path}`: {error.strerror or error}; nothing that was there is lost; {advice}"


def _mode(mode: int) -> int:
    """Return a file mode with the umask applied, as `open` does.

    (Python's temporary files are private instead.)
    """
    mask = os.umask(0)
    os.umask(mask)
    return mode & ~mask


def read_lines(path: Path) -> list[str]:
    """Return the lines of a UTF-8 file. Raises `DataError` if it cannot be read."""
    try:
        content = read_file(path).decode("utf-8-sig")
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
