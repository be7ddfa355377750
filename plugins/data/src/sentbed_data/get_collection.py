"""Gets missing files of a known collection: downloads them, unpacks them or makes them from other files."""

from __future__ import annotations

import errno
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import unquote, urlsplit

from sentbed.errors import DataError
from sentbed.helpers import sha256
from sentbed_common import KnownArchive, KnownData, KnownMade

from sentbed_data.download import BLOCK, Follow, fetch, replace_file
from sentbed_data.find_collections import (
    MISSING,
    WRONG,
    FoundData,
    FoundFile,
    inspect_collection,
    inspect_file,
)

_BROKEN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
)
"""Exceptions that unreadable archives raise; an encrypted member raises a `RuntimeError`."""


def get_missing_files(
    collection: KnownData,
    base: Path,
    follow: Follow,
) -> FoundData:
    """Get the missing files of a collection below the data directory `base`; return the collection's new state.

    Files with the right number of rows are not changed. A file with a wrong number of rows is renamed to
    `NAME.old`. An archive that is already in the directory is used, and not removed.

    Raises:
        DataError: if no missing file can be downloaded or made, or if a download fails.
        RunError: if the disk is full or the directory cannot be written.
    """
    status = inspect_collection(collection, base)
    if not status.bad:
        return inspect_collection(collection, base, digests=True)

    missing: dict[str, FoundFile] = {}
    for item in status.files:
        path = item.file.path
        if item.state in (MISSING, WRONG) and collection.can_download(path):
            missing[path] = item

    if not missing:
        advice = collection.advice or f"see {collection.source}"
        files = ", ".join(item.file.path for item in status.bad)
        raise DataError(
            f"`{collection.name}` cannot be downloaded: {advice}; its files belong in "
            f"`{status.directory}`: {files}"
        )

    to_download = dict(missing)
    for making in collection.made:
        for path in making.files:
            to_download.pop(path, None)

    _download(collection, status.directory, to_download, follow)
    for making in collection.made:
        to_make = [missing[path] for path in making.files if path in missing]
        if to_make:
            _make(making, status.directory, to_make, follow)

    return inspect_collection(collection, base, digests=True)


def _download(
    collection: KnownData,
    directory: Path,
    missing: Mapping[str, FoundFile],
    follow: Follow,
) -> None:
    """Download the missing files, each from its URL or, if it has none, in an archive."""
    in_archives = []
    for item in missing.values():
        if item.file.url is None:
            in_archives.append(item)
        else:
            fetch(item.file.url, item.path, item.file.sha256, follow)

    for archive in collection.archives:
        in_archive = []
        for item in in_archives:
            if item.file.path.startswith(archive.holds):
                in_archive.append(item)

        if in_archive:
            _from_archive(archive, directory, in_archive, follow)


def _make(
    making: KnownMade,
    directory: Path,
    missing: Iterable[FoundFile],
    follow: Follow,
) -> None:
    """Make the missing files from other files, which are downloaded if they are missing."""
    for source in making.sources:
        item = inspect_file(directory, source)
        if item.state in (MISSING, WRONG) and source.url is not None:
            fetch(source.url, item.path, source.sha256, follow)

    contents = making.make(directory)
    for item in missing:
        replace_file(item.path, [contents[item.file.path]])


def _from_archive(
    archive: KnownArchive,
    directory: Path,
    missing: Iterable[FoundFile],
    follow: Follow,
) -> None:
    """Unpack the missing files from an archive, which is downloaded if necessary and then removed again."""
    path = directory / unquote(PurePosixPath(urlsplit(archive.url).path).name)
    digests = set()
    if archive.sha256 is not None:
        digests = {archive.sha256}

    was_there = path.is_file()
    if not was_there:
        fetch(archive.url, path, digests, follow)
    elif digests and (digest := sha256(path)) not in digests:
        raise DataError(
            f"`{path}` is not the archive that {archive.url} gives: its sha256 is {digest}, expected "
            f"{archive.sha256}; delete it and run it again"
        )

    try:
        unpack(path, {item.file.path: item.path for item in missing})
    finally:
        if not was_there:
            # The error of a disk that is read-only by now would hide the first one.
            with suppress(OSError):
                path.unlink()


def unpack(archive: Path, targets: Mapping[str, Path]) -> None:
    """Unpack files from a `.zip` or `.tar` archive; `targets` maps the end of a member's path to a file's path.

    If several members have the ending, the one with the shortest path is used. Files that the archive lacks are
    skipped.

    Raises:
        DataError: if the archive is damaged or cannot be read.
        RunError: if the disk is full or the directory cannot be written.
    """
    try:
        if archive.suffix == ".zip":
            _unpack_zip(archive, targets)
        else:
            _unpack_tar(archive, targets)
    except _BROKEN as error:
        raise DataError(_unreadable(error), archive) from error


def _unpack_zip(archive: Path, targets: Mapping[str, Path]) -> None:
    with zipfile.ZipFile(archive) as zipped:
        members = {}
        for info in zipped.infolist():
            if not info.is_dir():
                members[info.filename] = info

        _write_members(members, targets, zipped.open, archive)


def _unpack_tar(archive: Path, targets: Mapping[str, Path]) -> None:
    with tarfile.open(archive) as tarred:
        members = {member.name: member for member in tarred if member.isfile()}
        _write_members(members, targets, tarred.extractfile, archive)


def _write_members(
    members: Mapping[str, Any],
    targets: Mapping[str, Path],
    open_member: Callable[[Any], Any],
    archive: Path,
) -> None:
    """Write members of an archive to the files in `targets`."""
    for end, target in targets.items():
        names = [name for name in members if f"/{name}".endswith(f"/{end}")]
        if not names:
            continue

        member = members[min(names, key=len)]
        with open_member(member) as source:
            replace_file(target, _blocks(source, archive))


def _blocks(source: IO[bytes], archive: Path) -> Iterator[bytes]:
    """Yield the content of an open member, block by block."""
    while True:
        try:
            block = source.read(BLOCK)
        except _BROKEN as error:
            raise DataError(_unreadable(error), archive) from error

        if not block:
            return

        yield block


def _unreadable(error: BaseException) -> str:
    """Return the message for an archive that is damaged, or that the system cannot open or read."""
    # An archive with a wrong offset makes the system refuse to seek to it (`EINVAL`); the libraries' errors on
    # damage have no number.
    if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
        return (
            f"the archive cannot be read ({error.strerror}); look at its permissions and its disk, or "
            f"download it again"
        )

    reason = str(error).partition(":\n")[0] or type(error).__name__
    return f"the archive is damaged ({reason}); download it again"
