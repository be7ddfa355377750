"""The data directory of an evaluator, and the files of its tasks in that directory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path, PurePosixPath

import attrs
from sentbed import DataError, locate
from sentbed.errors import listed
from sentbed.helpers import DATA_VARIABLE, data_root, sha256

from sentbed_evaluators.known_collections import known_collection


@attrs.frozen
class TaskFiles:
    """The paths of the files of a suite's tasks; a file need not exist."""

    collection: str
    """Name of the collection that `sentbed data get` downloads."""
    root: Path
    """Directory that holds all files."""
    by_task: Mapping[str, tuple[Path, ...]]

    def __getitem__(self, task: str) -> tuple[Path, ...]:
        """Return the files of a task; raises `DataError` if one is missing."""
        for message in self.missing([task]).values():
            raise DataError(message)

        return self.by_task[task]

    def missing(self, tasks: Iterable[str]) -> dict[str, str]:
        """Return, by task, a message for each of these tasks that lacks a file; unknown tasks have no message."""
        messages = {}
        present = ""
        for task in tasks:
            absent = self._absent(task)
            if not absent:
                continue

            present = present or self._present_tasks()
            messages[task] = (
                f"task `{task}` needs {_first_names(absent)}, missing in `{self.root}`; add what is missing "
                f"(`sentbed data get {self.collection}` downloads it), or leave the task out "
                f"(`skip_missing = true`); tasks present: {present}"
            )

        return messages

    def _present_tasks(self) -> str:
        """Return the names of the tasks that have all their files, for a message."""
        present = [task for task in self.by_task if not self._absent(task)]
        return listed(present) or "none"

    def _absent(self, task: str) -> list[str]:
        """Return the paths of a task's missing files, relative to the root."""
        absent = []
        for file in self.by_task.get(task, ()):
            if not file.is_file():
                absent.append(file.relative_to(self.root).as_posix())

        return absent


def _first_names(names: Sequence[str]) -> str:
    """Return all names if there are one or two, otherwise the first name and the number of the others."""
    if len(names) > 2:
        return f"`{names[0]}` and {len(names) - 1} more"
    return " and ".join(f"`{name}`" for name in names)


def digest(files: Sequence[Path]) -> str:
    """Return one SHA-256 over the names and contents of files; for a single file, the SHA-256 of the file."""
    if len(files) == 1:
        return sha256(files[0])

    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name}\0{sha256(file)}\n".encode())

    return digest.hexdigest()


def require_count(
    count: int,
    expected: Sequence[int],
    what: str,
    file: Path,
    collection: str,
    tolerance: int = 0,
) -> None:
    """Raise `DataError` unless `what` has one of the expected numbers of rows, or about that."""
    if count and any(abs(count - number) <= tolerance for number in expected):
        return

    numbers = " or ".join(f"{number:,}" for number in expected)
    raise DataError(
        f"found {count:,} rows of `{what}`, expected {numbers}; `sentbed data get {collection}` downloads the "
        "file again, or set `check_sizes = false` where it is data of your own",
        file,
    )


def data_directory(data_dir: str | None, collection: str) -> Path:
    """Return the directory `data_dir`, or by default the directory that the variable `SENTBED_DATA` names.

    Raises `DataError` if neither is set. The message names the usual folder of the collection in that directory.
    """
    base = locate(data_dir) if data_dir is not None else data_root()
    if base is None:
        raise DataError(
            f"no data directory is known; set `data_dir`, or set `{DATA_VARIABLE}` to the directory that "
            f"holds `{known_collection(collection).places[0]}` (`sentbed data get {collection}` downloads it)"
        )
    return base


def find_task_files(
    data_dir: str | None,
    collection: str,
    paths_by_task: Mapping[str, Sequence[str]],
) -> TaskFiles:
    """Return the files of a suite's tasks; `paths_by_task` has their paths below the collection's directory.

    That is the first place of the collection below the data directory that has the folder of a task, or a file
    where files are in no folder. Raises `DataError` if there is none.
    """
    base = data_directory(data_dir, collection)
    places = known_collection(collection).places
    entries: dict[str, None] = {}
    for paths in paths_by_task.values():
        for path in paths:
            entry = PurePosixPath(path).parent.as_posix()
            if entry == ".":
                entry = path
            entries[entry] = None

    for place, entry in product(places, entries):
        root = base / place
        if not (root / entry).exists():
            continue

        by_task = {}
        for task, paths in paths_by_task.items():
            by_task[task] = tuple(root / path for path in paths)

        return TaskFiles(collection, root, by_task)

    below = listed(place for place in places if place != ".")
    raise DataError(
        f"`{base}` has no data of `{collection}`: `{next(iter(entries))}` or another task's was looked for in it "
        f"and below {below}; `sentbed data get {collection}` downloads it, or set `data_dir` or "
        f"`{DATA_VARIABLE}` to where it is"
    )
