"""Strict row-by-row reader of the columns of csv, tsv and jsonl files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import attrs
from sentbed import DataError, locate

from sentbed_evaluators.json_lines import read_objects, text_of, value_of
from sentbed_evaluators.text_lines import (
    Hashes,
    column_places,
    csv_rows,
    encoding_problems,
    lines,
)

SUFFIXES = (".csv", ".tsv", ".jsonl")


@attrs.frozen
class ColumnFile:
    """The layout of sentence pairs, with further columns, in one file."""

    path: str
    """Location of the file, resolved by `sentbed.locate`."""
    columns: tuple[str, ...]
    """One column for each of `meanings`: names of the header or keys, or positions from 0 without a
    header."""
    header: bool = True
    """Whether the first line names the columns."""
    separator: str | None = None
    """Separator of columns, without quoting; None: by the suffix of the file."""
    encoding: str = "utf-8"
    """Text encoding; invalid bytes are an error."""

    meanings: ClassVar[tuple[str, ...]] = ("first sentence", "second sentence")
    """Meanings of the columns: two texts, then others."""

    def problems(self) -> Iterator[str]:
        """Yield problems that show in the first row of the file, such as a column that is missing."""
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
        if self.separator is None and self._suffix not in SUFFIXES:
            yield (
                f"`{self.path}` ends in {self._suffix!r}, which says nothing about its columns; "
                f"rename it to one of {', '.join(SUFFIXES)} or set `separator`"
            )
        if self.separator == "":
            yield "`separator` is empty; give the characters that stand between two columns"
        count = len(self.meanings)
        if len(set(self.columns)) != count:
            fault = f"is {list(self.columns)!r}"
            for column in self.columns:
                if self.columns.count(column) > 1:
                    fault = f"names `{column}` twice"
                    break
            yield (
                f"`columns` {fault}, but {count} different columns are needed; "
                f"give {', '.join(self.meanings)}"
            )
        wrong = [
            column
            for column in self.columns
            if not (column.isascii() and column.isdigit())
        ]
        if not self.header and self._suffix == ".jsonl":
            yield "`header = false` means nothing for a jsonl file, whose keys name the columns; remove it"
        elif not self.header and wrong:
            yield (
                f"`columns` has {wrong!r}, but with `header = false` columns are positions; "
                f'write them from zero, such as ["0", "1"]'
            )
        yield from encoding_problems(self.encoding)

    @property
    def _suffix(self) -> str:
        return Path(self.path).suffix.lower() if self.separator is None else ""

    def rows(self, hashes: Hashes | None = None) -> Iterator[tuple[int, Sequence[Any]]]:
        """Yield line and columns of each row, at least one; raises `DataError` with file and line.

        The first two are texts; so are the others, except in jsonl files, where they are the JSON values. For
        `hashes` see `lines`.
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
        for line, row in read_objects(path, self.encoding, hashes):
            texts = [text_of(row, column, path, line) for column in self.columns[:2]]
            others = [value_of(row, column, path, line) for column in self.columns[2:]]
            yield line, texts + others

    def _fields(
        self, path: Path, hashes: Hashes | None
    ) -> Iterator[tuple[int, Sequence[str]]]:
        numbered_lines = _without_blank_end(lines(path, self.encoding, hashes))
        rows: Iterator[tuple[int, Sequence[str]]]
        if self._suffix == ".csv":
            rows = csv_rows(path, numbered_lines)
        else:
            rows = (
                (line, text.split(self.separator or "\t"))
                for line, text in numbered_lines
            )
        if self.header:
            names = next(rows, (1, None))[1]
            if names is None:
                return
            advice = "set `columns` to those of the file"
            places = column_places(self.columns, names, path, advice)
            width = len(names)
        else:
            places = [int(column) for column in self.columns]
            width = max(places) + 1
        expected = f"{width} were expected"
        if self.header:
            expected = f"the header has {width}"
        for line, row in rows:
            if len(row) < width or (self.header and len(row) > width):
                raise DataError(
                    f"the row has {len(row)} columns, but {expected}; "
                    f"repair the line, or change `columns` or `separator`",
                    path,
                    line,
                )
            yield line, [row[place] for place in places]


def _without_blank_end(
    numbered_lines: Iterable[tuple[int, str]],
) -> Iterator[tuple[int, str]]:
    waiting = []
    for line in numbered_lines:
        waiting.append(line)
        if line[1]:
            yield from waiting
            waiting.clear()
