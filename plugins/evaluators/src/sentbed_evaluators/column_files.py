"""Strict reader of csv, tsv and jsonl files with sentence pairs and further columns, row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import attrs
from sentbed import DataError, locate
from sentbed_common import csv_rows

from sentbed_evaluators.json_lines import read_objects, text_of, value_of
from sentbed_evaluators.text_lines import (
    Hashes,
    column_places,
    encoding_problems,
    lines,
    with_line_ends,
)

SUFFIXES = (".csv", ".tsv", ".jsonl")


@attrs.frozen
class ColumnFile:
    """A file of sentence pairs and further columns: its path and its layout."""

    path: str
    """Path of the file, resolved by `sentbed.locate`."""
    columns: tuple[str, ...]
    """One column for each of `meanings`: a name in the header, a key of the jsonl objects, or a position from 0
    if there is no header."""
    header: bool = True
    """Whether the first line names the columns."""
    separator: str | None = None
    """Separator of columns. If it is set, quotes have no special meaning. None: the file's suffix decides."""
    encoding: str = "utf-8"
    """Text encoding; invalid bytes are an error."""

    meanings: ClassVar[tuple[str, ...]] = ("first sentence", "second sentence")
    """What the columns hold, for messages: first two texts, then other values."""

    def problems(self) -> Iterator[str]:
        """Yield problems that can be found from the settings or the first row, such as a missing column."""
        try:
            if locate(self.path).is_dir():
                yield f"`{self.path}` is a directory; name a file of pairs"
                return
        except DataError as error:
            yield str(error)
            return
        problems = list(self._format_problems())
        yield from problems
        if problems:
            return
        try:
            next(self.rows())
        except DataError as error:
            yield str(error)

    def _format_problems(self) -> Iterator[str]:
        """Yield problems with `separator`, `columns`, `header` and `encoding`."""
        if self.separator is None and self._suffix not in SUFFIXES:
            yield (
                f"`{self.path}` ends in {self._suffix!r}, which says nothing about its columns; "
                f"rename it to one of {', '.join(SUFFIXES)} or set `separator`"
            )
        if self.separator == "":
            yield "`separator` is empty; give the characters that stand between two columns"
        yield from self._column_problems()
        yield from encoding_problems(self.encoding)

    def _column_problems(self) -> Iterator[str]:
        """Yield problems with `columns` and `header`."""
        count = len(self.meanings)
        if len(set(self.columns)) != count:
            fault = f"is {list(self.columns)!r}"
            repeated = [
                name for name, times in Counter(self.columns).items() if times > 1
            ]
            if repeated:
                fault = f"names `{repeated[0]}` twice"
            yield (
                f"`columns` {fault}, but {count} different columns are needed; "
                f"give {', '.join(self.meanings)}"
            )
        if self.header:
            return
        if self._suffix == ".jsonl":
            yield "`header = false` means nothing for a jsonl file, whose keys name the columns; remove it"
            return
        wrong = [
            name for name in self.columns if not (name.isascii() and name.isdigit())
        ]
        if wrong:
            yield (
                f"`columns` has {wrong!r}, but with `header = false` columns are positions; "
                f'write them from zero, such as ["0", "1"]'
            )

    @property
    def _suffix(self) -> str:
        """The file's suffix, which decides the format; empty if `separator` decides."""
        if self.separator is not None:
            return ""
        return Path(self.path).suffix.lower()

    def rows(self, hashes: Hashes | None = None) -> Iterator[tuple[int, Sequence[Any]]]:
        """Yield the line number and the columns of each row.

        The first two columns are texts. Further columns are texts, too, except in jsonl files, where they are
        JSON values of any type. If `hashes` is given, the hash of the file is put into it (see
        `text_lines.lines`).

        Raises:
            DataError: if a row is malformed, or there is none; with file and line.
        """
        for problem in self._format_problems():
            raise DataError(problem)
        path, line = locate(self.path), 0
        read = self._objects if self._suffix == ".jsonl" else self._fields
        for line, row in read(path, hashes):
            yield line, row
        if not line:
            raise DataError(
                "the file has no pair of sentences; add pairs or check the download",
                path,
            )

    def _objects(
        self, path: Path, hashes: Hashes | None
    ) -> Iterator[tuple[int, Sequence[Any]]]:
        """Yield the rows of a jsonl file."""
        for line, row in read_objects(path, self.encoding, hashes):
            values: list[Any] = []
            for column in self.columns[:2]:
                values.append(text_of(row, column, path, line))
            for column in self.columns[2:]:
                values.append(value_of(row, column, path, line))
            yield line, values

    def _fields(
        self, path: Path, hashes: Hashes | None
    ) -> Iterator[tuple[int, Sequence[str]]]:
        """Yield the rows of a csv or tsv file, or of a file with `separator`."""
        rows = self._split_rows(path, hashes)
        if self.header:
            names = next(rows, (1, None))[1]
            if names is None:
                return
            advice = "set `columns` to those of the file"
            places = column_places(self.columns, names, path, advice)
            width = len(names)
            expected = f"the header has {width}"
        else:
            places = [int(column) for column in self.columns]
            width = max(places) + 1
            expected = f"{width} were expected"

        for line, row in rows:
            if len(row) < width or (self.header and len(row) > width):
                raise DataError(
                    f"the row has {len(row)} columns, but {expected}; "
                    f"repair the line, or change `columns` or `separator`",
                    path,
                    line,
                )
            yield line, [row[place] for place in places]

    def _split_rows(
        self, path: Path, hashes: Hashes | None
    ) -> Iterator[tuple[int, Sequence[str]]]:
        """Yield the line number and all fields of each row; the header is the first row."""
        numbered_lines = _without_blank_end(lines(path, self.encoding, hashes))
        if self._suffix == ".csv":
            yield from csv_rows(with_line_ends(numbered_lines), path)
            return
        for line, text in numbered_lines:
            yield line, text.split(self.separator or "\t")


def _without_blank_end(
    numbered_lines: Iterable[tuple[int, str]],
) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines, except empty lines at the end of the file."""
    pending = []
    for number, text in numbered_lines:
        pending.append((number, text))
        if text:
            yield from pending
            pending.clear()
