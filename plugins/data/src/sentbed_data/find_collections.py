"""Finds known data collections on this machine, and checks their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from sentbed.errors import DataError, PluginError, suggest
from sentbed.helpers import DATA_VARIABLE, data_root, reason_of, sha256
from sentbed_common import KnownData, KnownFile

if TYPE_CHECKING:
    from sentbed.tools import Plugins

MISSING, INCOMPLETE, WRONG, UNKNOWN, PRESENT, KNOWN = (
    "missing",
    "incomplete",
    "wrong row count",
    "unknown digest",
    "present",
    "as known",
)
"""States of a file or a collection, from the worst to the best. Only a collection can be `INCOMPLETE`: some of
its files are missing. In the last three states, the number of rows is right or not known. `UNKNOWN` and `KNOWN`
are the results of a comparison of digests; in the state `PRESENT`, digests were not compared, or none is
known."""

_STATES = (MISSING, INCOMPLETE, WRONG, UNKNOWN, PRESENT, KNOWN)


@attrs.frozen
class FoundFile:
    """The state of a collection's file on this machine."""

    file: KnownFile
    path: Path
    """The file's path, also if the file does not exist."""
    state: str
    detail: str = ""
    """Description of the problem; empty if there is none."""

    @property
    def counts(self) -> bool:
        """Whether the file counts for the collection's state; a missing optional file does not count."""
        return not (self.file.optional and self.state == MISSING)


@attrs.frozen
class FoundData:
    """The state of a known collection on this machine."""

    collection: KnownData
    directory: Path
    """Directory of the collection's files, also if it does not exist."""
    files: tuple[FoundFile, ...]

    @property
    def state(self) -> str:
        """The worst state of the files that count; `incomplete` if only some of them exist."""
        states = {file.state for file in self.files if file.counts}
        if MISSING in states and states != {MISSING}:
            return INCOMPLETE
        return min(states, key=_STATES.index)

    @property
    def bad(self) -> tuple[FoundFile, ...]:
        """The files that are missing (optional files excepted), or that have a wrong number of rows."""
        bad = []
        for file in self.files:
            if file.counts and file.state in (MISSING, WRONG):
                bad.append(file)

        return tuple(bad)

    @property
    def detail(self) -> str:
        """Description of the files that determine the state; empty if there is nothing to describe."""
        state = self.state
        if state in (MISSING, PRESENT, KNOWN):
            return ""

        worst = state
        if state == INCOMPLETE:
            worst = MISSING
        paths = []
        for file in self.files:
            if file.counts and file.state == worst:
                paths.append(file.file.path)

        detail = paths[0]
        if worst == MISSING:
            detail = f"without {detail}"
        if len(paths) > 1:
            detail += f" and {len(paths) - 1} more"
        return f"{detail}, of {len(self.files)} files"


def collections(plugins: Plugins) -> Mapping[str, KnownData]:
    """Return the collections that the plugins know, by name.

    Raises:
        PluginError: if two plugins offer a collection of the same name, or if a plugin's hook fails.
    """
    by_name: dict[str, KnownData] = {}
    owners: dict[str, str] = {}
    for implementation in plugins.manager.hook.known_data.get_hookimpls():
        try:
            offered: Sequence[KnownData] = implementation.function()  # type: ignore[assignment]
        except Exception as error:
            raise PluginError(
                f"the plugin `{implementation.plugin_name}` cannot say which data it knows: "
                f"{reason_of(error)}; disable or uninstall it"
            ) from error

        for collection in offered:
            owner = owners.setdefault(collection.name, implementation.plugin_name)
            if owner != implementation.plugin_name or collection.name in by_name:
                raise PluginError(
                    f"the data `{collection.name}` is known to `{owner}` and to "
                    f"`{implementation.plugin_name}`; disable or uninstall one of them"
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


def data_base(directory: str | None) -> Path | None:
    """Return `directory` or, if it is None, the directory that `SENTBED_DATA` names; None if it names none."""
    if directory is None:
        return data_root()
    path = Path(directory)
    # The `~` of an unknown user stays, as in `data_root`.
    with suppress(RuntimeError):
        path = path.expanduser()
    return path


def inspect_collection(
    collection: KnownData,
    base: Path | None,
    digests: bool = False,
) -> FoundData:
    """Find a collection below the data directory `base`, and check its files.

    Numbers of rows are compared, and with `digests`, hashes too. If `base` is None, all files count as missing.
    """
    if base is None:
        directory = Path(f"${DATA_VARIABLE}") / collection.places[0]
        missing = [
            FoundFile(file, directory / file.path, MISSING) for file in collection.files
        ]
        return FoundData(collection, directory, tuple(missing))

    directory = base / collection.places[0]
    for place in collection.places:
        if any(_path(base / place, file).is_file() for file in collection.files):
            directory = base / place
            break

    files = [inspect_file(directory, file, digests) for file in collection.files]
    return FoundData(collection, directory, tuple(files))


def inspect_file(
    directory: Path,
    file: KnownFile,
    digests: bool = False,
) -> FoundFile:
    """Check one file of a collection whose files are in `directory`."""
    path = _path(directory, file)
    if not path.is_file():
        detail = ""
        if file.optional:
            detail = "not needed"
        return FoundFile(file, path, MISSING, detail)

    try:
        if problem := _problem_of_rows(file, path):
            return FoundFile(file, path, WRONG, problem)
        if digests and file.sha256:
            digest = sha256(path)
            if digest in file.sha256:
                return FoundFile(file, path, KNOWN)
            return FoundFile(file, path, UNKNOWN, f"sha256 {digest}")
    except OSError as error:
        raise DataError(
            f"the file cannot be read: {error.strerror or error}", path
        ) from error

    return FoundFile(file, path, PRESENT)


def _problem_of_rows(file: KnownFile, path: Path) -> str:
    """Return the problem with a file's number of rows; empty if it is right, or not known."""
    if file.rows is None:
        return ""

    rows = count_rows(path)
    if file.header:
        rows -= 1
    if rows == file.rows or (rows > file.rows and file.at_least):
        return ""

    expected = f"{file.rows:,}"
    if file.at_least:
        expected = f"at least {expected}"
    return f"{rows:,} rows, expected {expected}"


def _path(directory: Path, file: KnownFile) -> Path:
    """Return the path of a file, which may be one of `file.others`; also if the file does not exist."""
    paths = list(map(directory.joinpath, (file.path, *file.others)))
    # A directory is chosen first, as readers do it: a missing file belongs beside the files that exist.
    parent = paths[0].parent
    for path in paths:
        if path.parent.is_dir():
            parent = path.parent
            break

    beside = [path for path in paths if path.parent == parent]
    for path in beside:
        if path.is_file():
            return path

    return beside[0]


def count_rows(path: Path) -> int:
    """Return the number of lines of a file. Only the byte `\\n` ends a line; the last line may lack it.

    In Latin-1 files, a text reader would take other bytes, such as 0x85, for line ends.
    """
    rows, last = 0, b"\n"
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            rows += block.count(b"\n")
            last = block[-1:]

    if last == b"\n":
        return rows

    return rows + 1
