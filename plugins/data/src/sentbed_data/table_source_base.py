"""The base classes of sources that read tables."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import attrs
from attrs.validators import ge, min_len, optional
from sentbed import DataError, FilePath, locate
from sentbed.protocols import Dataset, DataSource
from sentbed_common import (
    HUB,
    TEXT_TABLES,
    Column,
    InMemoryDataset,
    TableLayout,
    is_data_set,
    local_file,
    require_table,
    require_text,
    suffix_of,
    table_rows,
)

from sentbed_data.known_collections import known_file, with_remedy
from sentbed_data.streamed_table import open_streamed


def as_tuple(path: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return a tuple of the paths or names in a recipe field, which may be a single one."""
    if isinstance(path, str):
        return (path,)

    return path


def columns_of_rows(rows: Iterable[Sequence[Any]], width: int) -> list[list[Any]]:
    """Return the `width` columns of rows."""
    columns: list[list[Any]] = [[] for _ in range(width)]
    for row in rows:
        for column, value in zip(columns, row, strict=True):
            column.append(value)

    return columns


def package_problems(package: str, extra: str, use: str) -> Iterator[str]:
    """Yield a problem if `package`, which the `extra` of this distribution installs for `use`, is missing."""
    if importlib.util.find_spec(package) is None:
        yield (
            f"{use} needs the package `{package}`, which is not installed; "
            f"run `pip install 'sentbed-data[{extra}]'`"
        )


@attrs.frozen(kw_only=True)
class TableSource(DataSource):
    """Recipe fields of a source that reads tables."""

    path: FilePath | tuple[FilePath, ...]
    """Location of the texts, or an array of locations, which are read in order: a path (relative to the recipe),
    `pkg:PACKAGE/path` (in an installed package), `data:path` (below the directory that `SENTBED_DATA` names), or
    `hub:ID`.

    The suffix determines the format: `.csv` (RFC 4180 quoting), `.tsv` (tabs separate fields; a quote is part
    of a text) or `.jsonl` (one object per line), each also with `.gz`; `.parquet` or `.arrow` (IPC).
    `hub:OWNER/NAME` is a data set of the Hugging Face hub, `hub:OWNER/NAME/FILE` a file in its repository, which
    is read like a local file, and `hub:./DIRECTORY` a local directory with the layout of a data set of the hub.
    """

    header: bool = True
    """Whether the first row of a CSV or TSV file names its columns. Without a header, columns are named by their
    positions: `"0"`, `"1"`, ..."""
    separator: str | None = attrs.field(
        default=None,
        validator=optional(min_len(1)),
    )
    """What separates the fields of a text file, in which a quote is then part of a text.
    Default: by the suffix."""
    encoding: str = "utf-8"
    """Encoding of a text file, as Python names it; in UTF-8, a byte order mark is skipped."""

    config: str | None = None
    """Configuration (subset) of a `hub:` data set; default: the data set's own default."""
    split: str = "train"
    """Split of a `hub:` data set, in the notation of `datasets`: `train`, `train[:1%]`."""
    revision: str | None = None
    """Branch, tag or commit of a `hub:` location; default: the newest commit. Only a commit is reproducible."""

    limit: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of rows to return, from the first, at least 1; default: all."""

    def check(self) -> Iterator[str]:
        """Yield problems that show without reading more than the first row."""
        if not self.path:
            yield "`path` is empty; expected a file or `hub:ID`; name one"

        for location in as_tuple(self.path):
            try:
                self._read_first_row(location)
            except DataError as error:
                yield with_remedy(error, location)

        yield from self._needless_options()

    @property
    def fetches(self) -> bool:
        """Whether a file or a data set is on the hub."""
        return any(_is_remote(location) for location in as_tuple(self.path))

    @property
    def _layout(self) -> TableLayout:
        return TableLayout(
            self.header,
            self.separator,
            self.encoding,
            self.config,
            self.split,
            self.revision,
        )

    @property
    def _file_columns(self) -> tuple[Column, ...]:
        """Columns of the file that are read."""
        raise NotImplementedError

    def _read_first_row(self, location: str) -> None:
        """Raise `DataError` if a location cannot be read, as far as that shows from a text file's first row."""
        if location == HUB:
            raise DataError(f"`{HUB}` names no data set; expected `hub:OWNER/NAME`")

        if is_data_set(location):
            if not _is_remote(location):
                locate(location.removeprefix(HUB))

            return

        require_table(location, self._file_columns, self._layout)
        if _is_remote(location):
            return

        local_file(location)
        if self.separator is not None or suffix_of(location) in TEXT_TABLES:
            next(table_rows(location, self._file_columns, self._layout))

    def _needless_options(self) -> Iterator[str]:
        """Yield a problem for each option that applies to no location."""
        locations = as_tuple(self.path)
        needless = []
        if all(map(is_data_set, locations)):
            needless += ["header", "separator", "encoding"]

        if any(map(is_data_set, locations)):
            needless.append("stream")
        else:
            needless += ["config", "split"]

        if not any(location.startswith(HUB) for location in locations):
            needless.append("revision")

        for field in attrs.fields(type(self)):
            if field.name in needless and getattr(self, field.name) != field.default:
                yield f"`{field.name}` has no effect on {self.path!r}; remove `{field.name}`"

    def _rows(self) -> Iterator[tuple[str, int, list[Any]]]:
        """Yield the location of each row, its number there, and its values in `_file_columns`."""
        for location in as_tuple(self.path):
            for number, values in table_rows(
                location, self._file_columns, self._layout
            ):
                yield location, number, values

    def _require_rows(self, count: int) -> None:
        """Raise `DataError` if the only file is of a known collection and lacks rows, or has too many."""
        location, *others = as_tuple(self.path)
        match = known_file(location)
        # Of several files, only the number of all rows is known.
        if others or match is None:
            return

        collection, file = match
        # A known file without a header is a text file: blank lines are counted in `file.rows`, but are no rows
        # here.
        if file.rows is None or not file.header:
            return

        if count != min(file.rows, self.limit or file.rows):
            raise DataError(
                f"found {count:,} rows, expected the {file.rows:,} of `{collection.name}`: the file was "
                f"cut, or is another one; get it again (`sentbed data get {collection.name}`), or give data "
                "of your own another name",
                location,
            )


def _is_remote(location: str) -> bool:
    """Whether a location is on the hub, not a directory on this machine."""
    return location.startswith(HUB) and not location.startswith(
        (f"{HUB}.", f"{HUB}/", f"{HUB}~")
    )


@attrs.frozen(kw_only=True)
class TextSource(TableSource):
    """Recipe fields of a source whose rows are texts in columns of a table."""

    stream: bool = False
    """Whether the texts stay on disk, for data too large for memory.

    They are written once to an Arrow file in the cache (`SENTBED_CACHE`, or `sentbed` in the user's cache
    directory), from which rows are read when they are needed.
    """

    def _open(self, fields: Mapping[str, int]) -> Dataset:
        """Return the rows, in memory or on disk; `fields` maps each column to an index in `_file_columns`.

        Raises `DataError` if a file of a known collection does not have the published number of rows.
        """

        dataset: Dataset
        if self.stream:
            paths = []
            for location in as_tuple(self.path):
                paths.append(local_file(location, self.revision))

            reading = [self._file_columns, self.header, self.separator, self.encoding]
            reading.append(self.limit)
            dataset = open_streamed(paths, fields, lambda _: self._texts(), reading)
        else:
            texts = columns_of_rows(self._texts(), len(self._file_columns))
            columns = {}
            for column, place in fields.items():
                columns[column] = texts[place]

            dataset = InMemoryDataset(columns)

        self._require_rows(len(dataset))
        return dataset

    def _texts(self) -> Iterator[Sequence[str]]:
        """Yield the texts of the first `limit` rows; raises `DataError` if one is empty or no text."""
        for location, number, values in islice(self._rows(), self.limit):
            for value, column in zip(values, self._file_columns, strict=True):
                require_text(value, str(column), location, number)

            yield values
