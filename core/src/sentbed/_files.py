"""Reading files with a limit, checksums, atomic writing, and locks."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

from sentbed.errors import DataError, RunError, printable

LONGEST_LINE = 1 << 20
"""Largest number of bytes of a line in a text file, and of characters in a text."""

LARGEST_JSON = 1 << 30
"""Largest number of bytes of a JSON file, which is more than the record of a large study has."""

_BLOCK = 1 << 20
"""Number of bytes to read at a time."""

LARGEST_UNALLOCATED = 1 << 30
"""Size in bytes up to which a file may be sparse."""

MOST_HOLES = 100
"""Ratio of size to allocated space above which a larger file is refused as sparse."""

SUMS_FILE = "checksums.json"
"""File with the SHA-256 of every file below its directory; see `write_sums`."""


def is_device(path: Path) -> bool:
    """Whether a path is a pipe, a socket or a device, from which reading may never end."""
    return path.exists() and not (path.is_file() or path.is_dir())


def open_file(path: Path) -> BufferedReader:
    """Open a file for reading.

    Raises:
        DataError: for a pipe or a device, and for a sparse file, which takes no space and may take days to
            read.
        OSError: as `open` does.
    """
    if is_device(path):
        raise DataError(
            "this is a pipe or a device, expected a file; copy its content into a file",
            path,
        )
    stream = path.open("rb")
    if _is_sparse(stream.fileno()):
        stream.close()
        raise DataError(
            "nearly all of this file is holes, which hold nothing; get it again", path
        )
    return stream


def _is_sparse(descriptor: int) -> bool:
    """Whether a large file consists nearly of holes only; False for one that the file system compresses."""
    state = os.fstat(descriptor)
    allocated = getattr(state, "st_blocks", None)
    if state.st_size <= LARGEST_UNALLOCATED or allocated is None:
        return False
    if 512 * allocated * MOST_HOLES >= state.st_size or not hasattr(os, "SEEK_HOLE"):
        return False
    # On a file system without holes, the first hole is the end of the file.
    first_hole = os.lseek(descriptor, 0, os.SEEK_HOLE)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return first_hole < state.st_size


def _unreadable(path: Path, error: OSError) -> DataError:
    """Return the error for a failed read of an open file; the system's error does not name the file."""
    return DataError(
        f"the file cannot be read ({error.strerror}); look at its disk, or get it again",
        path,
    )


def read_file(path: Path, most: int = LONGEST_LINE) -> bytes:
    """Return the content of a file.

    Raises:
        DataError: as `open_file`, for more than `most` bytes, and if reading fails.
        OSError: if the file cannot be opened.
    """
    content = bytearray()
    with open_file(path) as stream:
        try:
            # In blocks, since a single call would allocate `most` bytes for the smallest file.
            while block := stream.read(min(_BLOCK, most + 1 - len(content))):
                content += block
        except OSError as error:
            raise _unreadable(path, error) from error
    if len(content) > most:
        raise DataError(
            f"the file has more than {most:,} bytes; name another, or cut it", path
        )
    return bytes(content)


def read_json(path: Path, most: int = LARGEST_JSON) -> Any:
    """Return the content of a JSON file of at most `most` bytes.

    Raises:
        OSError: if the file cannot be opened.
        ValueError: if it is not JSON, or nested too deeply for Python.
        DataError: as `read_file`.
    """
    content = read_file(path, most)
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("its arrays or tables are nested too deeply") from error


def sha256(path: Path) -> str:
    """Return the SHA-256 hex digest of a file, or of all files below a directory with their names."""
    import hashlib

    digest = hashlib.sha256()
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
    for file in files:
        if path.is_dir():
            digest.update(file.relative_to(path).as_posix().encode() + b"\0")
        with open_file(file) as stream:
            try:
                hashlib.file_digest(stream, lambda: digest)
            except OSError as error:
                raise _unreadable(file, error) from error
    return digest.hexdigest()


def write_sums(directory: Path, hashes: Mapping[str, str] | None = None) -> None:
    """Write the SHA-256 of every file below a directory, for `verified_sums`.

    `hashes` may have hashes of files that are known already.
    """
    known_sums = hashes or {}
    sums = {}
    for path in directory.rglob("*"):
        name = path.relative_to(directory).as_posix()
        if path.is_file() and name != SUMS_FILE:
            sums[name] = known_sums.get(name) or sha256(path)
    write_atomic(directory / SUMS_FILE, json.dumps(sums, indent=1, sort_keys=True))


def verified_sums(directory: Path) -> dict[str, str]:
    """Return the SHA-256 of each file that `write_sums` recorded, after verifying it.

    Raises:
        ValueError: if a file is missing or damaged; the message names it.
    """
    try:
        sums = _read_sums(directory)
        for name, expected in sums.items():
            if ".." in Path(name).parts or Path(name).is_absolute():
                raise ValueError(
                    f"`{name}` is not what was written: it is not below the directory"
                )
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
    """Return the recorded checksums of a directory, unverified. Raises `ValueError` if they are damaged."""
    try:
        sums = read_json(directory / SUMS_FILE)
    except ValueError as error:
        raise ValueError(f"`{SUMS_FILE}` is not what was written") from error
    if not isinstance(sums, dict):
        raise ValueError(f"`{SUMS_FILE}` is not what was written")  # noqa: TRY004 - what a file holds is a value
    return sums


def require_links_within(directory: Path) -> None:
    """Raise `RunError` if a symbolic link below a directory leads out of it.

    Writing into the directory could then change files elsewhere. Links within the directory are allowed.
    """
    root = directory.resolve()
    for place, subdirectories, files in os.walk(root):
        for name in (*subdirectories, *files):
            path = Path(place, name)
            if path.is_symlink() and not leads_inside(path, root):
                raise RunError(
                    f"`{path}` is a link that leads out of `{directory}`, where files are to be written; put "
                    "what it leads to in its place, or remove it"
                )


def leads_inside(path: Path, directory: Path) -> bool:
    """Whether a path, with links resolved, is `directory` or below it; False for a circle of links."""
    try:
        return path.resolve().is_relative_to(directory.resolve())
    except (OSError, RuntimeError):
        return False


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file for writing, which replaces `path` atomically at the end of the block.

    If `path` is a link, the link is replaced and not its target, which may be any file of the user's.

    Raises:
        RunError: if the disk is full or `path` cannot be written; what was at `path` is unchanged.
    """
    import tempfile

    named, path = path, path.parent.resolve() / path.name
    # A link to a directory is replaced; a link to a device is refused, as the device is.
    if is_device(path) or (path.is_dir() and not path.is_symlink()):
        raise RunError(f"`{named}` is not a plain file; choose another place")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise RunError(cannot_write(named, error)) from error
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w+b") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(_mode(0o666))
        temporary.replace(path)
    except OSError as error:
        raise RunError(cannot_write(named, error)) from error
    finally:
        # On a read-only disk this fails as well, and would hide the first error.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a file atomically (see `atomic_file`), a text with its control characters escaped (`printable`).

    Raises `RunError`.
    """
    if isinstance(content, str):
        content = printable(content).encode()
    with atomic_file(path) as stream:
        stream.write(content)


def write_directory(path: Path, fill: Callable[[Path], None]) -> None:
    """Let `fill` write into a new directory, then replace `path` by it.

    Raises:
        RunError: if the disk is full or `path` cannot be written; what was at `path` is unchanged.
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
    """Remove a directory with its content, or a file of this name, ignoring errors; a link is left.

    `shutil.rmtree` alone would open a pipe of this name, and wait for ever.
    """
    import shutil

    if path.is_symlink():
        return
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        path.unlink()


@contextmanager
def locked(path: Path, wait: bool = False) -> Iterator[bool]:
    """Acquire the lock file `path`; yield whether that succeeded. It is released if the process dies.

    With `wait`, wait without limit until another process releases the lock.

    Raises:
        RunError: if the file cannot be created or written.
    """
    # Imported here, since most commands lock nothing.
    from filelock import FileLock, Timeout

    timeout = -1 if wait else 0  # -1: without limit
    lock = FileLock(path, timeout=timeout)
    free = True
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


def cannot_write(path: Path, error: OSError) -> str:
    """Return the message for a full disk or a path that cannot be written."""
    advice = "choose another place"
    full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    if error.errno in full or "No space left" in str(error):
        advice = "free some space, or choose another place"
    return f"cannot write `{path}`: {error.strerror or error}; nothing that was there is lost; {advice}"


def _mode(mode: int) -> int:
    """Return the mode with the umask applied, as `open` does; temporary files are private by default."""
    mask = os.umask(0)
    os.umask(mask)
    return mode & ~mask
