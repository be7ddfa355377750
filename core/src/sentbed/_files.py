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
"""Bytes of the longest line of a text file, and characters of the longest text."""

LARGEST_JSON = 1 << 30
"""Bytes of the largest JSON file that we write: the record of a study with every score."""

_BLOCK = 1 << 20
"""Bytes that are read at a time."""

LARGEST_UNALLOCATED = 1 << 30
"""Bytes of the largest file that may be nearly all holes."""

MOST_HOLES = 100
"""How many times larger than its space on the disk a file is that is nearly all holes."""

SUMS_FILE = "checksums.json"
"""File with the SHA-256 of every file below its directory; see `write_sums`."""


def is_device(path: Path) -> bool:
    """Whether a path is a pipe, a socket or a device, whose reading may never end."""
    return path.exists() and not (path.is_file() or path.is_dir())


def open_file(path: Path) -> BufferedReader:
    """Open a file for reading.

    Raises:
        DataError: for a pipe or a device, and for a file that is nearly all holes: it takes no room and may
            take days to read.
        OSError: as `open` does.
    """
    if is_device(path):
        raise DataError(
            "this is a pipe or a device, expected a file; copy its content into a file",
            path,
        )
    stream = path.open("rb")
    if _is_hollow(stream.fileno()):
        stream.close()
        raise DataError(
            "nearly all of this file is holes, which hold nothing; get it again", path
        )
    return stream


def _is_hollow(descriptor: int) -> bool:
    """Whether a large file has next to no content on its disk, which is not merely compressed."""
    state = os.fstat(descriptor)
    allocated = getattr(state, "st_blocks", None)
    if (
        state.st_size <= LARGEST_UNALLOCATED
        or allocated is None
        or not hasattr(os, "SEEK_HOLE")
    ):
        return False
    if 512 * allocated * MOST_HOLES >= state.st_size:
        return False
    # Where a file system knows no holes, or says nothing of blocks, the first hole is the end of the file.
    first_hole = os.lseek(descriptor, 0, os.SEEK_HOLE)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return first_hole < state.st_size


def _unreadable(path: Path, error: OSError) -> DataError:
    """Return the error for a file that is open and not read, which the system's own error does not name."""
    return DataError(
        f"the file cannot be read ({error.strerror}); look at its disk, or get it again",
        path,
    )


def read_file(path: Path, most: int = LONGEST_LINE) -> bytes:
    """Return the content of a file.

    Raises:
        DataError: as `open_file`, for more than `most` bytes, and if the disk does not give the content.
        OSError: if the file cannot be opened.
    """
    content = bytearray()
    with open_file(path) as stream:
        try:
            # In blocks: one call takes the memory for `most` bytes, however small the file is.
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
    """Return what a JSON file holds; `most` is the number of bytes of the largest one.

    Raises:
        OSError: if the file cannot be opened.
        ValueError: if it is not JSON, or nested more deeply than Python reads.
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
    files = (
        sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    )
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

    `hashes` has those of some files, which are not computed again.
    """
    names = sorted(
        path.relative_to(directory).as_posix()
        for path in directory.rglob("*")
        if path.is_file()
    )
    sums = {
        name: (hashes or {}).get(name) or sha256(directory / name)
        for name in names
        if name != SUMS_FILE
    }
    write_atomic(directory / SUMS_FILE, json.dumps(sums, indent=1))


def verified_sums(directory: Path) -> dict[str, str]:
    """Return the SHA-256 of each file that `write_sums` found, read again and compared.

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
    """Return the content of a directory's checksums. Raises `ValueError` if it is no table."""
    try:
        sums = read_json(directory / SUMS_FILE)
    except ValueError as error:
        raise ValueError(f"`{SUMS_FILE}` is not what was written") from error
    if not isinstance(sums, dict):
        raise ValueError(f"`{SUMS_FILE}` is not what was written")  # noqa: TRY004 - what a file holds is a value
    return sums


def require_links_within(directory: Path) -> None:
    """Raise `RunError` if a link below a directory that is to be written to leads out of it.

    What is written would change files elsewhere. Links between files of the directory are allowed.
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
    """Whether a path, with its links followed, is a directory or below it; a circle of links is nowhere."""
    try:
        return path.resolve().is_relative_to(directory.resolve())
    except (OSError, RuntimeError):
        return False


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces `path` atomically at the end of the block.

    A link is replaced as well, not what it leads to: in a directory of a stranger that may be any file.

    Raises:
        RunError: if the disk is full or `path` cannot be written; what was at `path` is unchanged.
    """
    import tempfile

    named, path = path, path.parent.resolve() / path.name
    # A link to a directory is replaced, one to a device is what a user named.
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
        # On a disk that has become read-only this fails too, and would hide why.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a file atomically, a text without what controls a terminal. Raises `RunError`.

    See `atomic_file` and `printable`.
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
    """Remove a directory with all that is in it, as far as that can be done, or what else has its name.

    `shutil.rmtree` opens what it is given, and so waits for ever at a pipe. A link is left as it is.
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
    """Hold the lock file `path`; yield whether it was free. The lock is released if the process dies.

    With `wait`, another process's lock is waited for, however long that is.

    Raises:
        RunError: if the file cannot be created or written.
    """
    # Imported here: most commands lock nothing.
    from filelock import FileLock, Timeout

    # Without a limit is -1.
    timeout = -1 if wait else 0
    lock, free = FileLock(path, timeout=timeout), True
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
    full = error.errno in (
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
    ) or "No space left" in str(error)
    advice = (
        "free some space, or choose another place" if full else "choose another place"
    )
    return f"cannot write `{path}`: {error.strerror or error}; nothing that was there is lost; {advice}"


def _mode(mode: int) -> int:
    """Return the mode that a plain `open` would give; temporary files are private by default."""
    mask = os.umask(0)
    os.umask(mask)
    return mode & ~mask
