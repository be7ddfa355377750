"""Known collections of data, and the state of their files on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from sentbed.errors import DataError, PluginError, suggest
from sentbed.helpers import DATA_VARIABLE, data_root, sha256
from sentbed_common import KnownData, KnownFile

if TYPE_CHECKING:
    from sentbed.tools import Plugins

MISSING = "missing"
UNKNOWN = "unknown copy"


@attrs.frozen
class FileState:
    """The state of a collection's file on this machine."""

    file: KnownFile
    path: Path
    """The file's path, also if the file does not exist."""
    problem: str = ""
    """`MISSING`, a wrong number of rows, or `UNKNOWN` with the digest; empty if nothing is wrong."""

    @property
    def is_bad(self) -> bool:
        """Whether the file is missing, unless no reader needs it, or has a wrong number of rows."""
        if self.problem == MISSING:
            return not self.file.optional

        return bool(self.problem) and not self.problem.startswith(UNKNOWN)


def collections(plugins: Plugins) -> Mapping[str, KnownData]:
    """Return the collections that the plugins know, by name.

    Raises:
        PluginError: if two collections have the same name.
    """

    by_name: dict[str, KnownData] = {}
    for offered in plugins.manager.hook.known_data():
        for collection in offered:
            if collection.name in by_name:
                raise PluginError(
                    f"two plugins know data named `{collection.name}`; disable or uninstall one of them"
                )

            by_name[collection.name] = collection

    return dict(sorted(by_name.items()))


def find_collection(plugins: Plugins, name: str) -> KnownData:
    """Return the collection with this name. Raises `DataError`, with a similar name, if there is none."""
    by_name = collections(plugins)
    if name not in by_name:
        raise DataError(
            f"there is no known data `{name}`.{suggest(name, list(by_name))}"
        )

    return by_name[name]


def data_base(directory: str | None) -> Path:
    """Return `directory` or, if it is None, the directory that `SENTBED_DATA` names.

    Raises:
        DataError: if neither is given.
    """

    if directory is not None:
        return Path(directory).expanduser()

    base = data_root()
    if base is None:
        raise DataError(
            f"no data directory is known; set `{DATA_VARIABLE}` to the directory that holds the data, or name it "
            "with `--dir`"
        )

    return base


def collection_directory(collection: KnownData, base: Path) -> Path:
    """Return the directory of a collection's files below `base`; the usual one if none of them exists."""
    for place in collection.places:
        for file in collection.files:
            if (base / place / file.path).is_file():
                return base / place

    return base / collection.places[0]


def file_states(
    collection: KnownData,
    base: Path,
    digests: bool = False,
) -> list[FileState]:
    """Return the state of each file of a collection below the data directory `base`.

    Numbers of rows are compared, and with `digests`, hashes too.
    """

    directory = collection_directory(collection, base)
    states = []
    for file in collection.files:
        path = directory / file.path
        states.append(FileState(file, path, _problem(file, path, digests)))

    return states


def summary(states: Sequence[FileState]) -> str:
    """Return the state of a collection in a few words: `present`, `missing`, or its first fault."""
    faults = []
    for state in states:
        if state.is_bad or state.problem.startswith(UNKNOWN):
            faults.append(state)

    if not faults:
        return "present"

    if not any(state.path.is_file() for state in states):
        return MISSING

    first = faults[0]

    return f"{len(faults)} of {len(states)} files are not as known: {first.file.path}, {first.problem}"


def _problem(file: KnownFile, path: Path, digests: bool) -> str:
    """Return what is wrong with a file; empty if nothing is."""
    if not path.is_file():
        return MISSING

    if file.rows is not None:
        rows = count_rows(path) - file.header
        if rows < file.rows or (rows > file.rows and not file.at_least):
            return f"{rows:,} rows, expected {file.rows:,}"

    if digests and file.sha256:
        digest = sha256(path)
        if digest not in file.sha256:
            return f"{UNKNOWN}, sha256 {digest}"

    return ""


def count_rows(path: Path) -> int:
    r"""Return the number of lines of a file. Only the byte `\n` ends a line; the last line may lack it."""
    rows, last = 0, b"\n"
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            rows += block.count(b"\n")
            last = block[-1:]

    if last != b"\n":
        rows += 1

    return rows
