"""Tables of labelled texts, in which each column may have one of several usual names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
from attrs.validators import ge, optional
from sentbed import DataError, FilePath
from sentbed.protocols import DataSource
from sentbed_common import csv_rows

from sentbed_data.csv_tsv_jsonl import shortened_list, table_rows, tsv_rows
from sentbed_data.file_paths import as_tuple
from sentbed_data.known_collections import known_file
from sentbed_data.readers import problem_of_text, resolve, suffix_of
from sentbed_data.text_lines import decoded_lines, python_encoding

SUFFIXES = (".csv", ".tsv", ".jsonl")


@attrs.frozen
class ColumnToFind:
    """A column that a source looks for in a file."""

    field: str
    """Name of the recipe field in which the user may name the column."""
    name: str | None
    """The column's name in the recipe; None if the recipe does not name it."""
    usual: Sequence[str]
    """Usual names of the column, in lower case, the preferred one first. They are for a recipe that does not
    name the column: the first of them that the file has is used."""
    required: bool = True
    """Whether it is an error if the recipe names no column and the file has none of the usual ones."""
    label: bool = False
    """Whether the column has labels: whole numbers are accepted as well, and read as texts."""


@attrs.frozen
class Row:
    """The values of a row, with its file and line."""

    values: tuple[str | None, ...]
    """A value for each `ColumnToFind`, in order; None if the file lacks the column."""
    file: Path
    line: int


@attrs.frozen(kw_only=True)
class LabelledFiles(DataSource):
    """The base class of sources that read labelled rows: their common recipe fields."""

    path: FilePath | tuple[FilePath, ...]
    """A file, or an array of files, which are read in order: `.csv` (RFC 4180 quoting) or `.tsv` (tabs separate
    fields; a quote is part of a text) with a header row, or `.jsonl` (one object per line); each also with
    `.gz`."""
    encoding: str = "utf-8"
    """Encoding of the files, as Python names it; in UTF-8, a byte order mark is skipped."""
    seed: int = 0
    """Seed of the choice among several suitable texts for a row; equal seeds give equal choices."""
    limit: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of rows to return, from the first, at least 1; default: all. All files are read in any case."""

    def check(self) -> Iterator[str]:
        """Yield problems that show without reading the data."""
        try:
            python_encoding(self.encoding)
            self._files()
        except DataError as error:
            matches = map(known_file, as_tuple(self.path))
            remedies = dict.fromkeys(
                collection.remedy for collection, _ in filter(None, matches)
            )
            yield "; ".join([str(error), *remedies])

    def _files(self) -> list[Path]:
        """Return the files that `path` names. Raises `DataError` if one cannot be found."""
        if not self.path:
            raise DataError("`path` is empty; expected a file; name one")
        return [resolve(location, SUFFIXES) for location in as_tuple(self.path)]

    def _rows(self, columns: Sequence[ColumnToFind]) -> Iterator[Row]:
        """Yield the values of these columns in all rows of all files."""
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
            rows = table_rows(file, suffix_of(file.name), self.encoding, names)
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
    """Return the column names in a file's first line; empty if the line is invalid, which reading will report."""
    lines = decoded_lines(file, encoding)
    suffix = suffix_of(file.name)
    if suffix == ".csv":
        return next(csv_rows(lines, file), (1, []))[1]
    if suffix == ".tsv":
        return next(tsv_rows(lines), (1, []))[1]

    try:
        first = json.loads(next(lines, ""))
    except ValueError:
        return []

    if not isinstance(first, dict):
        return []
    return list(first)


def _pick(
    column: ColumnToFind,
    names_in_file: Sequence[str],
    file: Path,
) -> str | None:
    """Return the name in a file of a column to find; None if the column is optional and missing.

    Raises `DataError` if a required column is missing.
    """
    if column.name is not None:
        return column.name
    if not names_in_file:
        if column.required:
            # The first line is invalid or missing. Reading the file will report that, whatever the column's name.
            return column.usual[0]
        return None

    # Of names that differ only in case, the first one in the file remains.
    name_by_lower_case = {name.lower(): name for name in reversed(names_in_file)}
    for usual in column.usual:
        if usual in name_by_lower_case:
            return name_by_lower_case[usual]

    if column.required:
        raise DataError(
            f"there is no column for the {column.field}: found {shortened_list(names_in_file)}, looked for "
            f"{shortened_list(column.usual)}; name it in the recipe: `{column.field} = ...`",
            file,
            1,
        )

    return None


def _text(
    value: object,
    column: ColumnToFind,
    name: str,
    file: Path,
    line: int,
) -> str:
    """Return a value as text. Raises `DataError` if it is neither a text nor an allowed label."""
    if column.label and type(value) is int:
        value = str(value)
    if message := problem_of_text(value):
        raise DataError(f"column `{name}`: {message}", file, line)
    return str(value)
