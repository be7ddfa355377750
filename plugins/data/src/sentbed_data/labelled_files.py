"""Tables of labelled texts whose columns have several common names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
from attrs.validators import ge, optional
from sentbed import DataError, FilePath
from sentbed.protocols import DataSource

from sentbed_data.csv_tsv_jsonl import (
    codec,
    csv_rows,
    decoded_lines,
    listed,
    table_rows,
    tsv_rows,
)
from sentbed_data.known_collections import known_file
from sentbed_data.readers import fault, resolve
from sentbed_data.text_files import several

SUFFIXES = (".csv", ".tsv", ".jsonl")


@attrs.frozen
class ColumnToFind:
    """A column that is looked for in a file."""

    field: str
    """The recipe field that may name the column."""
    name: str | None
    """The value of that field."""
    usual: Sequence[str]
    """Usual names, in lower case, if the recipe names none; the first one in the file is used."""
    required: bool = True
    """Whether it is an error if the file has none of the usual names."""
    label: bool = False
    """Whether whole numbers are accepted as well; they are read as text."""


@attrs.frozen
class Row:
    """The values of a row, and its place."""

    values: tuple[str | None, ...]
    """A value for each column that is looked for; None for a column that the file lacks."""
    file: Path
    line: int


@attrs.frozen(kw_only=True)
class LabelledFiles(DataSource):
    """The recipe parameters shared by sources of labelled rows."""

    path: FilePath | tuple[FilePath, ...]
    """A file, or an array of files read in order: `.csv` (RFC 4180 quoting) or `.tsv` (split at
    tabs; a quote is data) with a header row, or `.jsonl` (one object per line)."""
    encoding: str = "utf-8"
    """Encoding of the files, by Python's name; in UTF-8 a byte order mark is skipped."""
    seed: int = 0
    """Seed of the choice between several suitable texts; equal seeds give equal choices."""
    limit: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of first rows to return, at least 1; default: all. All files are read nevertheless."""

    def check(self) -> Iterator[str]:
        """Problems that show without reading the data."""
        try:
            codec(self.encoding)
            self._files()
        except DataError as error:
            matches = map(known_file, several(self.path))
            remedies = dict.fromkeys(
                collection.remedy for collection, _ in filter(None, matches)
            )
            yield "; ".join([str(error), *remedies])

    def _files(self) -> list[Path]:
        if not self.path:
            raise DataError("`path` is empty; expected a file; name one")
        return [resolve(location, SUFFIXES) for location in several(self.path)]

    def _rows(self, columns: Sequence[ColumnToFind]) -> Iterator[Row]:
        """Yield the rows of all files."""
        for file in self._files():
            names_in_file = _column_names(file, self.encoding)
            present = []
            names = []
            for column in columns:
                name = _pick(column, names_in_file, file)
                if name is not None:
                    present.append(column)
                    names.append(name)
            empty = True
            rows = table_rows(file, file.suffix.lower(), self.encoding, names)
            for line, values in rows:
                empty = False
                texts = {}
                for value, column, name in zip(values, present, names, strict=True):
                    texts[column.field] = _text(value, column, name, file, line)
                of_columns = tuple(texts.get(column.field) for column in columns)
                yield Row(of_columns, file, line)
            if empty:
                raise DataError(
                    "there are no rows of data; expected at least one; check the file",
                    file,
                )


def _column_names(file: Path, encoding: str) -> Sequence[str]:
    """Return the names in the first line; none if it cannot be read, which the reader then reports."""
    lines = decoded_lines(file, encoding)
    if file.suffix.lower() == ".csv":
        return next(csv_rows(file, lines), (1, []))[1]
    if file.suffix.lower() == ".tsv":
        return next(tsv_rows(lines), (1, []))[1]
    try:
        first = json.loads(next(lines, ""))
    except (ValueError, RecursionError):
        return []

    if not isinstance(first, dict):
        return []
    return list(first)


def _pick(column: ColumnToFind, names_in_file: Sequence[str], file: Path) -> str | None:
    """Return the name of a column in a file, None if it need not be there; raises `DataError`."""
    if column.name is not None:
        return column.name
    if not names_in_file:
        if column.required:
            return column.usual[0]
        return None
    spelt = {name.lower(): name for name in reversed(names_in_file)}
    for usual in column.usual:
        if usual in spelt:
            return spelt[usual]

    if column.required:
        raise DataError(
            f"there is no column for the {column.field}: found {listed(names_in_file)}, looked for "
            f"{listed(column.usual)}; name it in the recipe: `{column.field} = ...`",
            file,
            1,
        )
    return None


def _text(value: object, column: ColumnToFind, name: str, file: Path, line: int) -> str:
    if column.label and type(value) is int:
        value = str(value)
    if message := fault(value):
        raise DataError(f"column `{name}`: {message}", file, line)
    return str(value)
