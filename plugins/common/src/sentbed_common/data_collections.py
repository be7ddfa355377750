"""Known collections of data files: layouts, row counts, digests and sources."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

import attrs
import cattrs


@attrs.frozen
class KnownFile:
    """File of a known collection of data."""

    path: str
    """Path below the collection's directory, with `/` between its parts."""
    rows: int | None = None
    """Number of lines of data, without the header. None if it is not known; it is then not checked."""
    header: bool = False
    """Whether the first line is a header."""
    at_least: bool = False
    """Whether a file with more than `rows` lines is valid as well."""
    sha256: tuple[str, ...] = ()
    """SHA-256 digests of the known copies; a file with another digest is used, but reported as unknown. A
    download from `url` must have one of them."""
    url: str | None = None
    """URL from which `sentbed data get` downloads the file. None if it has no URL of its own: it is in an
    archive, is made from other files, or must be obtained by hand."""
    optional: bool = False
    """Whether the collection is complete without the file, since no reader needs it."""


@attrs.frozen
class KnownArchive:
    """`.zip` or `.tar` archive, compressed or not, with files of a known collection.

    In the archive, the files may be below a top-level directory: only the end of a member's path is compared.
    """

    url: str
    holds: str = ""
    """Beginning of the paths of the collection's files that are in this archive; empty if all files are in it."""
    sha256: str | None = None
    """SHA-256 digest of the archive. None if it is not known; it is then not checked."""


@attrs.frozen
class KnownMade:
    """Files of a known collection that are made from other files."""

    files: tuple[str, ...]
    """Paths of the files that are made."""
    sources: tuple[KnownFile, ...]
    """Files that are downloaded first; each has a `url`. Empty if the files are made from other collections,
    which must be present."""
    make: str
    """Function, as `package.module:name`, that takes the collection's directory (a `Path`), with the downloaded
    sources in it, and returns the content of each made file by its path."""


@attrs.frozen
class KnownData:
    """Collection of data files that an evaluator or a data source reads, and its origin."""

    name: str
    """Name in `sentbed data get NAME`: `senteval`, `glue`, ..."""
    summary: str
    """One-line description, which also names the components that read the collection."""
    places: tuple[str, ...]
    """Directories below `SENTBED_DATA` in which the collection may be; the usual one comes first."""
    files: tuple[KnownFile, ...]
    source: str
    """URL of the page that describes the collection."""
    archives: tuple[KnownArchive, ...] = ()
    made: tuple[KnownMade, ...] = ()
    licence: str = ""
    """Licence of the collection in a few words, if it is known."""
    advice: str = ""
    """Clause on how to obtain by hand the files that cannot be downloaded; without a full stop."""

    def can_download(self, path: str) -> bool:
        """Whether `sentbed data get` can obtain this file of the collection."""
        if any(path.startswith(archive.holds) for archive in self.archives):
            return True
        if any(path in derived.files for derived in self.made):
            return True
        return any(file.url and file.path == path for file in self.files)

    @property
    def how_to_get(self) -> str:
        """Clause on how to obtain the collection, for messages about missing files."""
        if any(self.can_download(file.path) for file in self.files):
            return f"`sentbed data get {self.name}` downloads it"
        return (
            f"`sentbed data where {self.name}` shows which file belongs where; "
            f"{self.advice or self.source}"
        )


@cache
def read_collections(package: str) -> tuple[KnownData, ...]:
    """Return the collections in the file `known.toml` of a package: its tables `[[collection]]`."""
    text = files(package).joinpath("known.toml").read_text("utf-8")
    return cattrs.structure(tomllib.loads(text)["collection"], tuple[KnownData, ...])
