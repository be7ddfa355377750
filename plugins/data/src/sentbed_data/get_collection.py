"""Gets missing files of a known collection: downloads them, unpacks them or makes them from other files."""

from __future__ import annotations

import errno
import lzma
import posixpath
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import unquote, urlsplit

from sentbed.errors import DataError, RunError
from sentbed.helpers import atomic_file, cannot_write, sha256
from sentbed_common import KnownArchive, KnownData, KnownMade

from sentbed_data.download import BLOCK, Follow, fetch, keep_aside
from sentbed_data.find_collections import (
    MISSING,
    WRONG,
    FoundData,
    FoundFile,
    inspect_collection,
    inspect_file,
)

MOST_UNPACKED = 100
"""Largest ratio of the unpacked size to an archive's size; text is usually compressed by a factor of ten."""

SMALL = 1 << 24
"""Unpacked size in bytes up to which an archive is accepted whatever its own size."""

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
        _replace_file(item.path, [contents[item.file.path]])


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
        DataError: if the archive is damaged, cannot be read, or has a member that would be outside the directory.
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
            _require_inside(info.filename, info.filename, archive)
            if not info.is_dir():
                members[info.filename] = info

        _write_members(members, targets, zipped.open, archive)


def _unpack_tar(archive: Path, targets: Mapping[str, Path]) -> None:
    with tarfile.open(archive) as tarred:
        members = {}
        for member in tarred:
            # All before the end of a member is unpacked to reach the next one, whether or not it is taken.
            _require_size(member.offset_data + member.size, member.name, archive)
            _require_inside(member.name, member.name, archive)
            if member.issym():
                target = posixpath.join(posixpath.dirname(member.name), member.linkname)
                _require_inside(posixpath.normpath(target), member.name, archive)
            elif member.islnk():
                _require_inside(member.linkname, member.name, archive)

            if member.isfile():
                members[member.name] = member

        # The checksum of a compressed archive is at its end, so the archive is read completely.
        while tarred.fileobj is not None and tarred.fileobj.read(BLOCK):
            _require_size(tarred.fileobj.tell(), "behind the last", archive)

        _write_members(members, targets, tarred.extractfile, archive)


def _require_inside(
    path: str,
    member: str,
    archive: Path,
) -> None:
    """Raise `DataError` if the path of a member, or of a link's target, is outside the archive."""
    # `tarfile.data_filter` would do this for tar archives, but exists only since Python 3.11.4.
    parts = PurePosixPath(path.replace("\\", "/"))
    if parts.is_absolute() or ".." in parts.parts:
        raise DataError(
            f"the archive has a member `{member}` that would lie outside the directory it is unpacked into; "
            f"nothing was taken out of it; do not unpack it, and tell whoever offers it",
            archive,
        )


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
        if isinstance(member, zipfile.ZipInfo):
            _require_size(member.file_size, member.filename, archive)

        with open_member(member) as source:
            _replace_file(target, _blocks(source, archive))


def _require_size(
    size: int,
    name: str,
    archive: Path,
) -> None:
    """Raise `DataError` if an archive unpacks to an implausible size; `size` includes the member `name`."""
    if size > max(archive.stat().st_size * MOST_UNPACKED, SMALL):
        raise DataError(
            f"the archive unpacks to {size:,} bytes with its member `{name}`, more than {MOST_UNPACKED} "
            f"times its own size; do not unpack it, and tell whoever offers it",
            archive,
        )


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


def _replace_file(target: Path, blocks: Iterable[bytes]) -> None:
    """Write blocks to a file, atomically; a file that is there already is renamed."""
    new = target.with_name(f"{target.name}.new")
    with atomic_file(new) as stream:
        for block in blocks:
            stream.write(block)

    try:
        keep_aside(target)
        new.replace(target)
    except OSError as error:
        raise RunError(cannot_write(target, error)) from error


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
