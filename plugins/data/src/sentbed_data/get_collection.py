"""Missing files of a known collection: downloaded, unpacked from archives, or built from others."""

from __future__ import annotations

import lzma
import posixpath
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import unquote, urlsplit

from sentbed.errors import DataError, RunError
from sentbed.helpers import atomic_file, cannot_write, sha256
from sentbed_common import KnownArchive, KnownData

from sentbed_data.download import BLOCK, Follow, fetch, keep_aside
from sentbed_data.find_collections import MISSING, WRONG, FoundData, FoundFile, look, look_at

MOST_UNPACKED = 100
"""Times the size of an archive to which it may unpack; text is compressed some ten times."""

SMALL = 1 << 24
"""Bytes to which any archive may unpack."""

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
"""Errors raised by damaged archives; an encrypted member raises a `RuntimeError`."""


def get(known: KnownData, base: Path, follow: Follow) -> FoundData:
    """Get the missing files of a collection below the data directory `base`, and return its new state.

    A file with the right number of rows is left alone; one that cannot be right is kept as `NAME.old`. An
    archive that is already at its download path is used and left there.

    Raises:
        DataError: if no missing file has a source, or a source fails to provide one.
        RunError: if the disk is full or the place cannot be written.
    """
    found = look(known, base)
    if not found.bad:
        return look(known, base, digests=True)
    wrong = (item for item in found.files if item.state in (MISSING, WRONG))
    todo = {item.file.path: item for item in wrong if known.can_download(item.file.path)}
    if not todo:
        raise DataError(
            f"`{known.name}` cannot be downloaded: {known.advice or f'see {known.source}'}; its files belong "
            f"in `{found.directory}`: {', '.join(item.file.path for item in found.bad)}"
        )
    made = {path for making in known.made for path in making.files}
    for path, item in list(todo.items()):
        if item.file.url is not None and path not in made:
            fetch(item.file.url, item.path, item.file.sha256, follow)
            del todo[path]
    for archive in known.archives:
        wanted = [item for path, item in todo.items() if path not in made and path.startswith(archive.holds)]
        if wanted:
            _from_archive(archive, found.directory, wanted, follow)
    for making in known.made:
        wanted = [item for path, item in todo.items() if path in making.files]
        if wanted:
            for source in making.sources:
                have = look_at(found.directory, source)
                if have.state in (MISSING, WRONG) and source.url is not None:
                    fetch(source.url, have.path, source.sha256, follow)
            contents = making.make(found.directory)
            for item in wanted:
                _put(item.path, [contents[item.file.path]])
    return look(known, base, digests=True)


def _from_archive(
    archive: KnownArchive, directory: Path, wanted: Iterable[FoundFile], follow: Follow
) -> None:
    path = directory / unquote(PurePosixPath(urlsplit(archive.url).path).name)
    given = path.is_file()
    if not given:
        fetch(archive.url, path, () if archive.sha256 is None else (archive.sha256,), follow)
    elif archive.sha256 is not None and (digest := sha256(path)) != archive.sha256:
        raise DataError(
            f"`{path}` is not the archive that {archive.url} gives: its sha256 is {digest}, expected "
            f"{archive.sha256}; delete it and run it again"
        )
    try:
        unpack(path, {item.file.path: item.path for item in wanted})
    except DataError:
        if not given:
            path.unlink()
        raise
    if not given:
        path.unlink()


def unpack(archive: Path, wanted: Mapping[str, Path]) -> None:
    """Unpack files from a `.zip` or `.tar` archive: the end of a member's path -> the file's new path.

    Of several members with that ending, the one with the shortest path is used. Files that the archive lacks
    are skipped.

    Raises:
        DataError: if the archive is damaged, or has a member outside the directory that it is unpacked
            into.
        RunError: if the disk is full or the place cannot be written.
    """
    members: Mapping[str, Any]
    try:
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as zipped:
                for name in zipped.namelist():
                    _require_inside(name, name, archive)
                members = {info.filename: info for info in zipped.infolist() if not info.is_dir()}
                _take(members, wanted, zipped.open, archive)
        else:
            with tarfile.open(archive) as tarred:
                for member in tarred:
                    _require_size(member.offset_data + member.size, member.name, archive)
                    _require_inside(member.name, member.name, archive)
                    if member.issym():
                        beside = posixpath.join(posixpath.dirname(member.name), member.linkname)
                        _require_inside(posixpath.normpath(beside), member.name, archive)
                    elif member.islnk():
                        _require_inside(member.linkname, member.name, archive)
                # The checksum of a compressed archive is at its end.
                while tarred.fileobj is not None and tarred.fileobj.read(BLOCK):
                    _require_size(tarred.fileobj.tell(), "behind the last", archive)
                members = {member.name: member for member in tarred if member.isfile()}
                _take(members, wanted, tarred.extractfile, archive)
    except _BROKEN as error:
        raise DataError(_damaged(error), archive) from error


def _require_inside(path: str, member: str, archive: Path) -> None:
    """Raise `DataError` if the path of a member, or of its link target, leaves the archive."""
    # `tarfile.data_filter` exists since Python 3.11.4.
    parts = PurePosixPath(path.replace("\\", "/"))
    if parts.is_absolute() or ".." in parts.parts:
        raise DataError(_evil(member), archive)


def _take(
    members: Mapping[str, Any], wanted: Mapping[str, Path], open_member: Callable[[Any], Any], archive: Path
) -> None:
    for end, target in wanted.items():
        fitting = [name for name in members if f"/{name}".endswith(f"/{end}")]
        if fitting:
            member = members[min(fitting, key=len)]
            if isinstance(member, zipfile.ZipInfo):
                _require_size(member.file_size, member.filename, archive)
            with open_member(member) as source:
                _put(target, _blocks(source, archive))


def _require_size(size: int, name: str, archive: Path) -> None:
    """Raise `DataError` if the bytes up to the end of a member are as many as only a bomb unpacks to."""
    if size > max(archive.stat().st_size * MOST_UNPACKED, SMALL):
        raise DataError(
            f"the archive unpacks to {size:,} bytes with its member `{name}`, more than {MOST_UNPACKED} "
            f"times its own size; do not unpack it, and tell whoever offers it",
            archive,
        )


def _blocks(source: IO[bytes], archive: Path) -> Iterator[bytes]:
    while True:
        try:
            block = source.read(BLOCK)
        except _BROKEN as error:
            raise DataError(_damaged(error), archive) from error
        if not block:
            return
        yield block


def _put(target: Path, blocks: Iterable[bytes]) -> None:
    new = target.with_name(f"{target.name}.new")
    with atomic_file(new) as stream:
        for block in blocks:
            stream.write(block)
    try:
        keep_aside(target)
        new.replace(target)
    except OSError as error:
        raise RunError(cannot_write(target, error)) from error


def _evil(name: str) -> str:
    return (
        f"the archive has a member `{name}` that would lie outside the directory it is unpacked into; "
        f"nothing was taken out of it; do not unpack it, and tell whoever offers it"
    )


def _damaged(error: BaseException) -> str:
    reason = str(error).partition(":\n")[0] or type(error).__name__
    return f"the archive is damaged ({reason}); download it again"
