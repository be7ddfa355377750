"""The data source `jsonl-pairs`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import attrs
from sentbed import DataError, FilePath, locate
from sentbed.protocols import Dataset, DataSource
from sentbed_common import InMemoryDataset


@attrs.frozen(kw_only=True)
class JsonlPairs(DataSource):
    """Pairs of a JSON Lines file, with or without hard negatives, under keys of any name.

    Each line is an object, and its texts are strings; other keys and empty lines are ignored.
    """

    name: ClassVar[str] = "jsonl-pairs"

    path: FilePath
    """The file, in UTF-8; a relative path starts in the recipe's directory."""
    anchor: str = "anchor"
    """Key of the first text."""
    positive: str = "positive"
    """Key of the text with the same meaning."""
    negative: str | None = None
    """Key of the hard negative, a text with another meaning; default: none."""

    @property
    def columns(self) -> tuple[str, ...]:
        """`anchor`, `positive`, and `negative` if it has a key."""
        return tuple(self._keys())

    def check(self) -> Iterator[str]:
        """Yield a message if the file does not exist."""
        try:
            locate(self.path)
        except DataError as error:
            yield str(error)

    def open(self) -> Dataset:
        """Read the file. Raises `DataError` with file and line."""
        path = locate(self.path)
        keys = self._keys()
        rows = list(_read(path, tuple(keys.values())))
        if not rows:
            raise DataError("the file has no row; write one object a line", path)
        return InMemoryDataset(dict(zip(keys, zip(*rows, strict=True), strict=True)))

    def _keys(self) -> dict[str, str]:
        """Return the key of each column."""
        keys = {"anchor": self.anchor, "positive": self.positive}
        return keys if self.negative is None else {**keys, "negative": self.negative}


def _read(path: Path, keys: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the texts of each line, in the order of `keys`."""
    number = 0
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield _texts(line, keys, path, number)
    except UnicodeDecodeError as error:
        raise DataError(f"the file is not UTF-8 behind line {number}: {error}; convert it", path) from error


def _texts(line: str, keys: tuple[str, ...], path: Path, number: int) -> tuple[str, ...]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise DataError(f"the line is not JSON: {error}; write one object a line", path, number) from error
    if not isinstance(row, dict):
        raise DataError(f"found {line.strip()[:40]!r}, expected an object; write `{{...}}`", path, number)
    for key in keys:
        if not isinstance(row.get(key), str):
            state = f"is {row[key]!r}" if key in row else f"is missing among {sorted(row)}"
            raise DataError(f"`{key}` {state}, expected a string; mend the line", path, number)
    return tuple(row[key] for key in keys)
