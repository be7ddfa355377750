"""The base class of sources that read a file: their recipe parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import attrs
from sentbed import DataError, FilePath, locate
from sentbed.protocols import Dataset, DataSource, DataTraits
from sentbed_common import InMemoryDataset

from sentbed_data.csv_tsv_jsonl import codec
from sentbed_data.known_collections import known_file
from sentbed_data.parquet_arrow_hub import ARROW, HUB, PARQUET, is_here, require
from sentbed_data.readers import TABLES, collect, read_rows, resolve
from sentbed_data.streamed_table import open_streamed


@attrs.frozen(kw_only=True)
class FileSource(DataSource):
    """A file or a data set of the hub, and how to read it."""

    papers: ClassVar[tuple[str, ...]] = ()
    """Keys of the papers that the source is from."""

    path: FilePath
    """Location of the texts: a path (relative to the recipe), `pkg:PACKAGE/path`, `data:path`, or `hub:ID`.

    The suffix determines the format: `.csv` (RFC 4180 quoting), `.tsv` (split at tabs; a quote is data),
    `.jsonl` (one object per line), `.parquet` (needs `sentbed-data[parquet]`), `.arrow` (IPC; needs
    `sentbed-data[arrow]`). `hub:ID` is an id of the Hugging Face hub, or an absolute path of a local
    directory (needs `sentbed-data[hub]`).
    """
    header: bool = True
    """Whether the first row of a CSV or TSV file names its columns.

    Without a header, the fields must be exactly the wanted columns, in the order of `columns`.
    """
    encoding: str = "utf-8"
    """Encoding of a text file, by Python's name; in UTF-8 a byte order mark is skipped."""
    config: str | None = None
    """Configuration (subset) of a `hub:` data set; default: the data set's own default."""
    split: str = "train"
    """Split of a `hub:` data set, in the notation of `datasets`: `train`, `train[:1%]`."""
    revision: str | None = None
    """Branch, tag or commit of a `hub:` data set; default: the newest. Only a commit is reproducible."""
    limit: int | None = attrs.field(default=None, validator=attrs.validators.optional(attrs.validators.ge(1)))
    """Number of first rows to read, at least 1; default: all."""
    stream: bool = False
    """Whether the texts stay on disk, for data too large for memory (needs `sentbed-data[arrow]`).

    They are read once into an Arrow file in the cache (`SENTBED_CACHE`, or `sentbed` in the user's cache
    directory), of which rows are read as they are needed; an `.arrow` file without compression is read as it
    is.
    """

    def check(self) -> Iterator[str]:
        """Problems that show without reading the data."""
        hub = self.path.startswith(HUB)
        try:
            codec(self.encoding)
            require_readable(self.path, self._suffixes())
            if self.stream and not hub:
                require("pyarrow", "arrow")
        except DataError as error:
            known = known_file(self.path)
            get = f"; `sentbed data get {known[0].name}` downloads it" if known else ""
            yield f"{error}{get}"
        yield from option_problems(
            (self.path,),
            header=self.header,
            encoding=self.encoding,
            config=self.config,
            split=self.split,
            revision=self.revision,
        )
        if self.stream and hub:
            yield (
                f"`stream` is for files, and `{self.path}` is a data set of the hub; "
                "save it as Parquet and name that file, or remove `stream`"
            )

    @property
    def traits(self) -> DataTraits:
        """The papers, and whether the data must be downloaded from the hub."""
        return DataTraits(cites=self.papers, fetches=must_be_fetched(self.path))

    def _suffixes(self) -> Sequence[str]:
        return TABLES

    def _rows(self, names: Sequence[str]) -> Iterator[Sequence[str]]:
        """Yield the texts of each row in the file's columns `names`."""
        return read_rows(
            self.path,
            names,
            header=self.header,
            encoding=self.encoding,
            config=self.config,
            split=self.split,
            revision=self.revision,
            limit=self.limit,
        )

    def _table(self, names: Sequence[str], columns: Mapping[str, int]) -> Dataset:
        """Return the rows of the file's columns `names`, in memory or on disk.

        `columns` maps each column of the data set to its index in `names`. Raises `DataError` if a known file
        has another number of rows than published.
        """
        found: Dataset
        if self.stream:
            path = resolve(self.path, self._suffixes())
            reading = {"header": self.header, "encoding": self.encoding, "limit": self.limit}
            found = open_streamed((path,), names, columns, lambda _: self._rows(names), reading)
        else:
            texts = collect(self._rows(names), len(names))
            found = InMemoryDataset({column: texts[place] for column, place in columns.items()})
        self._require_rows(len(found))
        return found

    def _require_rows(self, found: int) -> None:
        known = known_file(self.path)
        # Of a text file, blank lines are lines and no rows.
        if known is None or known[1].rows is None or not known[1].header:
            return
        if found != min(known[1].rows, self.limit or known[1].rows):
            raise DataError(
                f"found {found:,} rows, expected the {known[1].rows:,} of `{known[0].name}`: the file was "
                f"cut, or is another one; get it again (`sentbed data get {known[0].name}`), or give data of "
                "your own another name",
                locate(self.path),
            )


def require_readable(location: str, suffixes: Sequence[str]) -> None:
    """Raise `DataError` if there is no such file with one of `suffixes`, or its reader is not installed."""
    if location.startswith(HUB):
        require("datasets", "hub")
    else:
        resolve(location, suffixes)


def must_be_fetched(location: str) -> bool:
    """Whether a location is a data set of the hub that is not on this machine."""
    return location.startswith(HUB) and not is_here(location)


def option_problems(
    locations: Sequence[str],
    *,
    header: bool,
    encoding: str,
    config: str | None,
    split: str,
    revision: str | None,
) -> Iterator[str]:
    """Yield the reading options that apply to none of the locations."""
    hub = [location for location in locations if location.startswith(HUB)]
    suffixes = [Path(location).suffix.lower() for location in locations if location not in hub]
    listed = ", ".join(f"`{location}`" for location in locations)
    several = len(locations) > 1
    if not header and not {".csv", ".tsv"}.intersection(suffixes):
        is_none = "are none" if several else "is neither"
        yield f"`header = false` is for CSV and TSV files, and {listed} {is_none}; remove `header`"
    if encoding != "utf-8" and {PARQUET, ARROW}.issuperset(suffixes):
        is_none = "are none" if several else "is none"
        yield f"`encoding` is for text files, and {listed} {is_none}; remove `encoding`"
    if not hub:
        is_file = "are files" if several else "is a file"
        given = {"config": config, "revision": revision, "split": None if split == "train" else split}
        for name, value in given.items():
            if value is not None:
                yield f"`{name}` is for a `hub:` data set, and {listed} {is_file}; remove `{name}`"
