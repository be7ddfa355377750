"""The base class of sources that read one file or one data set of the hub."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import attrs
from attrs.validators import ge, optional
from sentbed import DataError, FilePath, locate
from sentbed.errors import listed
from sentbed.protocols import Dataset, DataSource
from sentbed_common import InMemoryDataset

from sentbed_data import hub
from sentbed_data.known_collections import known_file, with_remedy
from sentbed_data.parquet_arrow import ARROW, PARQUET, require_package
from sentbed_data.readers import (
    NO_NUMBERS,
    TABLES,
    Range,
    columns_of_rows,
    read_rows,
    require_format,
    resolve,
    suffix_of,
)
from sentbed_data.streamed_table import open_streamed
from sentbed_data.text_lines import python_encoding

_TEXT_TABLES = (".csv", ".tsv", ".jsonl")
"""Suffixes of tables whose first row can be read without an optional library."""


@attrs.frozen(kw_only=True)
class FileSource(DataSource):
    """Recipe fields of a source that reads one file or one data set of the hub."""

    path: FilePath
    """Location of the texts: a path (relative to the recipe), `pkg:PACKAGE/path` (in an installed package),
    `data:path` (below the directory that `SENTBED_DATA` names), or `hub:ID`.

    The suffix determines the format: `.csv` (RFC 4180 quoting), `.tsv` (tabs separate fields; a quote is part
    of a text) or `.jsonl` (one object per line), each also with `.gz`; `.parquet` (needs
    `sentbed-data[parquet]`) or `.arrow` (IPC; needs `sentbed-data[arrow]`).

    With `sentbed-data[hub]`, `hub:OWNER/NAME` is a data set of the Hugging Face hub, `hub:OWNER/NAME/FILE` a
    file in its repository, which is read like a local file, and `hub:./DIRECTORY` a local directory with the
    layout of a data set of the hub.
    """
    header: bool = True
    """Whether the first row of a CSV or TSV file names its columns.

    Without a header, the rows must have exactly the columns that the source reads, in the source's order.
    """
    encoding: str = "utf-8"
    """Encoding of a text file, as Python names it; in UTF-8, a byte order mark is skipped."""
    config: str | None = None
    """Configuration (subset) of a `hub:` data set; default: the data set's own default.

    On the branch `refs/convert/parquet` (set it as `revision`), the hub keeps each data set as Parquet files, and
    `config` is the name of a directory.
    """
    split: str = "train"
    """Split of a `hub:` data set, in the notation of `datasets`: `train`, `train[:1%]`."""
    revision: str | None = None
    """Branch, tag or commit of a `hub:` location; default: the newest commit. Only a commit is reproducible."""
    limit: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of rows to read, from the first, at least 1; default: all."""
    blank: Literal["refuse", "leave-out"] = "refuse"
    """What to do if a text is empty, missing (null) or white space alone: refuse the file, or leave the row out.

    The manifest of a run counts the rows that were left out.
    """
    stream: bool = False
    """Whether the texts stay on disk, for data too large for memory (needs `sentbed-data[arrow]`).

    They are written once to an Arrow file in the cache (`SENTBED_CACHE`, or `sentbed` in the user's cache
    directory), from which rows are read when they are needed. An `.arrow` file without compression is not
    copied.
    """

    def check(self) -> Iterator[str]:
        """Yield problems that show without reading more than the first row."""
        is_data_set = hub.is_data_set(self.path)
        try:
            python_encoding(self.encoding)
            require_readable(self.path, self._suffixes())
            if self.stream and not is_data_set:
                require_package("pyarrow", "arrow")
            self._require_columns()
        except DataError as error:
            yield with_remedy(error, self.path)

        yield from option_problems(
            (self.path,),
            header=self.header,
            encoding=self.encoding,
            config=self.config,
            split=self.split,
            revision=self.revision,
        )
        if self.stream and is_data_set:
            yield (
                f"`stream` is for files, and `{self.path}` is a data set of the hub; "
                "name a file of it (`hub:OWNER/NAME/FILE`), save it as Parquet and name that file, or remove "
                "`stream`"
            )

    @property
    def fetches(self) -> bool:
        """Whether the file is on a server."""
        return must_be_fetched(self.path, self.revision)

    @property
    def _file_columns(self) -> tuple[str, ...]:
        """Names of the columns that are read; empty if they are not known before the file is opened."""
        return ()

    def _require_columns(self) -> None:
        """Raise `DataError` if a local text file lacks a column, or if its first row is malformed."""
        is_local = not self.path.startswith(hub.HUB)
        if self._file_columns and is_local and suffix_of(self.path) in _TEXT_TABLES:
            next(iter(self._rows(self._file_columns, Counter())))

    def _suffixes(self) -> Sequence[str]:
        return TABLES

    def _rows(
        self, names: Sequence[str], left_out: Counter[str]
    ) -> Iterator[Sequence[str]]:
        """Yield the texts of each row in the file's columns `names`, and count the rows that are left out."""
        return self._table_rows(names, left_out)

    def _table_rows(
        self,
        names: Sequence[str],
        left_out: Counter[str],
        numbers: Mapping[str, Range] = NO_NUMBERS,
    ) -> Iterator[Sequence[Any]]:
        """As `_rows`, from a table whose columns `numbers` have numbers in a range."""
        return read_rows(
            self.path,
            names,
            header=self.header,
            encoding=self.encoding,
            config=self.config,
            split=self.split,
            revision=self.revision,
            limit=self.limit,
            numbers=numbers,
            left_out=self._counted(left_out),
        )

    def _counted(self, left_out: Counter[str]) -> Counter[str] | None:
        """Return the counter of blank rows, or None if such rows are refused."""
        if self.blank == "leave-out":
            return left_out
        return None

    def _table(self, names: Sequence[str], columns: Mapping[str, int]) -> Dataset:
        """Return the rows of the file's columns `names`, in memory or on disk.

        `columns` maps each column of the data set to an index in `names`. Raises `DataError` if a file of a
        known collection does not have the published number of rows.
        """
        dataset: Dataset
        if self.stream:
            path = resolve(self.path, self._suffixes(), self.revision)
            reading: dict[str, Any] = {
                "header": self.header,
                "encoding": self.encoding,
                "limit": self.limit,
            }
            if self.blank == "leave-out":
                reading["blank"] = self.blank
            rows = partial(self._rows, names)
            dataset = open_streamed((path,), names, columns, rows, reading)
        else:
            left_out: Counter[str] = Counter()
            texts = columns_of_rows(self._rows(names, left_out), len(names))
            dataset = InMemoryDataset(
                {column: texts[place] for column, place in columns.items()}, left_out
            )

        self._require_rows(len(dataset) + sum(dataset.left_out.values()))
        return dataset

    def _require_rows(self, count: int) -> None:
        """Raise `DataError` if a file of a known collection does not have the published number of rows."""
        match = known_file(self.path)
        if match is None:
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
                locate(self.path),
            )


def require_readable(location: str, suffixes: Sequence[str]) -> None:
    """Raise `DataError` if the file does not exist, has none of `suffixes`, or its reader is not installed.

    For a file of the hub, only the suffix is checked.
    """
    if not location.startswith(hub.HUB):
        resolve(location, suffixes)
        return

    hub.require_library(location)
    if hub.is_file(location):
        require_format(location, suffixes)


def must_be_fetched(location: str, revision: str | None) -> bool:
    """Whether a location is a data set or a file of the hub that must be downloaded."""
    if not location.startswith(hub.HUB):
        return False
    return not hub.is_on_this_machine(location, revision)


def option_problems(
    locations: Sequence[str],
    *,
    header: bool,
    encoding: str,
    config: str | None,
    split: str,
    revision: str | None,
) -> Iterator[str]:
    """Yield a problem for each reading option that applies to none of the locations."""
    suffixes = []
    has_data_set = has_hub_location = False
    for location in locations:
        if location.startswith(hub.HUB):
            has_hub_location = True
        if hub.is_data_set(location):
            has_data_set = True
        else:
            suffixes.append(suffix_of(location))

    names = listed(locations)
    neither, is_none, is_file = "is neither", "is none", "is a file"
    if len(locations) > 1:
        neither, is_none, is_file = "are none", "are none", "are files"
    if not header and not {".csv", ".tsv"}.intersection(suffixes):
        yield f"`header = false` is for CSV and TSV files, and {names} {neither}; remove `header`"
    if not _is_utf_8(encoding) and {PARQUET, ARROW}.issuperset(suffixes):
        yield f"`encoding` is for text files, and {names} {is_none}; remove `encoding`"
    needless = []
    if not has_data_set and config is not None:
        needless.append("config")
    if not has_hub_location and revision is not None:
        needless.append("revision")
    if not has_data_set and split != "train":
        needless.append("split")
    for name in needless:
        yield f"`{name}` is for a `hub:` data set, and {names} {is_file}; remove `{name}`"


def _is_utf_8(encoding: str) -> bool:
    """Whether an encoding is UTF-8, in any spelling; an unknown encoding, which is another problem, is not."""
    try:
        return python_encoding(encoding) == "utf-8"
    except DataError:
        return False
