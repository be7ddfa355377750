"""Gets missing files of a known collection: downloads them, unpacks them or makes them from other files."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from pkgutil import resolve_name
from tempfile import TemporaryDirectory
from urllib.parse import unquote, urlsplit

import click
from sentbed.errors import DataError, foreign, listed
from sentbed.helpers import atomic_file
from sentbed_common import KnownArchive, KnownData, KnownMade

from sentbed_data.collection_files import (
    FileState,
    collection_directory,
    file_states,
)

TIMEOUT_SECONDS = 60
"""Number of seconds to wait for a server that sends nothing."""


def get_missing_files(collection: KnownData, base: Path) -> list[FileState]:
    """Get the missing files of a collection below the data directory `base`; return the new states of all files.

    Files that exist are not changed. An archive that is already in the directory is used, and not removed.

    Raises:
        DataError: if no missing file can be downloaded or made, or if a download fails.
        RunError: if the directory cannot be written.
    """

    states = file_states(collection, base)
    if not any(state.is_bad for state in states):
        return file_states(collection, base, digests=True)

    missing = {}
    for state in states:
        path = state.file.path
        if not state.path.is_file() and collection.can_download(path):
            missing[path] = state

    if not missing:
        raise DataError(_why_nothing_is_downloaded(collection, states))

    directory = collection_directory(collection, base)
    directory.mkdir(parents=True, exist_ok=True)
    for making in collection.made:
        of_making = [missing.pop(path) for path in making.files if path in missing]
        if of_making:
            _make(making, directory, of_making)

    in_archives = []
    for state in missing.values():
        if state.file.url is None:
            in_archives.append(state)
        else:
            download(state.file.url, state.path, state.file.sha256)

    for archive in collection.archives:
        in_archive = []
        for state in in_archives:
            if state.file.path.startswith(archive.holds):
                in_archive.append(state)

        if in_archive:
            _unpack(archive, directory, in_archive)

    return file_states(collection, base, digests=True)


def _why_nothing_is_downloaded(
    collection: KnownData, states: Sequence[FileState]
) -> str:
    """Return a message with the missing and wrong files, and what to do about them."""
    files = []
    for state in states:
        if state.is_bad:
            files.append(f"{state.file.path} ({state.problem})")

    return (
        f"no missing file of `{collection.name}` can be downloaded: {listed(files)}; delete wrong files and run "
        f"it again; for the others, {collection.advice or collection.source}"
    )


def download(url: str, target: Path, digests: Sequence[str]) -> None:
    """Download `url` to `target`, unless it is there; a file with another digest than the only one is refused.

    Raises:
        DataError: if the server cannot be reached, or gives another file.
    """

    import pooch

    known_hash = None
    if len(digests) == 1:
        known_hash = f"sha256:{digests[0]}"

    click.echo(f"downloading {url}", err=True)
    # It would advise to write down the digest.
    pooch.get_logger().setLevel("WARNING")
    readable = foreign(
        partial(DataError, file=target),
        f"{url} cannot be downloaded",
        "run it again, or download it by hand and put it there",
    )

    with readable:
        pooch.retrieve(
            url,
            known_hash,
            fname=target.name,
            path=target.parent,
            downloader=pooch.HTTPDownloader(progressbar=True, timeout=TIMEOUT_SECONDS),
        )


def _make(
    making: KnownMade,
    directory: Path,
    missing: Sequence[FileState],
) -> None:
    """Make the missing files from other files, which are downloaded if they are missing."""
    for source in making.sources:
        path = directory / source.path
        if source.url is not None and not path.is_file():
            download(source.url, path, source.sha256)

    contents = resolve_name(making.make)(directory)
    for state in missing:
        with atomic_file(state.path) as stream:
            stream.write(contents[state.file.path])


def _unpack(
    archive: KnownArchive,
    directory: Path,
    missing: Sequence[FileState],
) -> None:
    """Unpack the missing files from an archive, which is downloaded if necessary and then removed again.

    Only the end of a member's path is compared, and of several the shortest is taken.
    """

    path = directory / unquote(PurePosixPath(urlsplit(archive.url).path).name)
    was_there = path.is_file()
    digests = []
    if archive.sha256 is not None:
        digests.append(archive.sha256)

    download(archive.url, path, digests)

    readable = foreign(
        partial(DataError, file=path),
        "the archive cannot be unpacked",
        "delete it and run it again",
    )

    with TemporaryDirectory(dir=directory) as unpacked, readable:
        if path.suffix == ".zip":
            shutil.unpack_archive(path, unpacked)
        else:
            # The filter refuses members that would be written outside of the directory.
            shutil.unpack_archive(path, unpacked, filter="data")

        members = []
        for file in Path(unpacked).rglob("*"):
            if file.is_file():
                members.append(str(file))

        for state in missing:
            ending = f"/{state.file.path}"
            matching = []
            for member in members:
                if member.endswith(ending):
                    matching.append(member)

            if matching:
                state.path.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(min(matching, key=len), state.path)

    if not was_there:
        path.unlink()
