"""Rows of tables: CSV, TSV, JSON Lines, Parquet and Arrow files, and data sets of the Hugging Face hub."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import attrs
from sentbed import DataError, locate
from sentbed.errors import foreign, suggest

from sentbed_common.hub_problems import hub_errors
from sentbed_common.line_readers import (
    csv_rows,
    decoded_lines,
    json_object,
    text_lines,
)

HUB = "hub:"
"""Prefix of the locations `hub:OWNER/NAME` (a data set), `hub:OWNER/NAME/FILE` (a file) and `hub:./DIRECTORY`."""

TEXT_TABLES = (".csv", ".tsv", ".jsonl")
"""Suffixes of tables whose first row is read without a library; each may be followed by `.gz`."""

TABLES = (*TEXT_TABLES, ".parquet", ".arrow")

LINES = ".txt"
"""Suffix of a file with one text a line: a table with a single column, whatever its name."""

BATCH_ROWS = 1024
"""Number of rows that are decoded at a time."""

Row: TypeAlias = tuple[int, list[Any]]
"""Number of a row, from 1 (that of its first line, in a text file), and its values."""

Column: TypeAlias = str | Sequence[str]
"""Name of a column, or its usual names in small letters: the first of them that the table has is read."""


@attrs.frozen
class TableLayout:
    """How a table is written, and which part of a data set of the hub it is."""

    header: bool = True
    """Whether the first row of a CSV or TSV file names the columns; otherwise, they are named `0`, `1`, ..."""
    separator: str | None = None
    """What separates the fields of a text file, in which quotes are then part of a text. Default: its suffix
    decides."""
    encoding: str = "utf-8"
    """Encoding of a text file."""
    config: str | None = None
    """Configuration of a data set of the hub."""
    split: str = "train"
    """Split of a data set of the hub."""
    revision: str | None = None
    """Branch, tag or commit of a data set or a file of the hub."""
    further_fields: bool = False
    """Whether rows of a file without a header may have more fields than the first, as some of STS-B's."""
    skip_short_rows: bool = False
    """Whether lines with fewer fields than the header are left out, such as those of texts with a line end."""


PLAIN = TableLayout()


def table_rows(
    location: str,
    columns: Sequence[Column],
    layout: TableLayout = PLAIN,
) -> Iterator[Row]:
    """Yield the number of each row of a table, and its values in `columns`, in their order.

    `location` is a data set of the hub, or a file with a suffix in `TABLES`: a location for `sentbed.locate` or a
    file of the hub. Values of text files other than JSON are texts exactly as they are written; `NA` is a text.
    Blank lines at the end of such a file, and all blank lines between JSON objects, are skipped.

    Raises:
        DataError: if the table cannot be read or lacks a column, if there is no row, or if a row lacks a field;
            with the file and the row's number.
    """
    if is_data_set(location):
        rows = _hub_rows(location, columns, layout)
    else:
        require_table(location, columns, layout)
        path = local_file(location, layout.revision)
        rows = _file_rows(path, columns, layout)

    empty = True

    for row in rows:
        empty = False
        yield row

    if empty:
        raise DataError(
            "there are no rows of data; expected at least one; check how the file was made",
            location,
        )


def is_data_set(location: str) -> bool:
    """Whether a location is a data set of the hub, or a directory with the layout of one (`hub:./DIRECTORY`)."""
    return location.startswith(HUB) and not _hub_parts(location)[1]


def suffix_of(location: str) -> str:
    """Return the suffix of a file's format in small letters, such as `.csv` for `a.csv.gz`."""
    return Path(location.lower().removesuffix(".gz")).suffix


def require_table(
    location: str,
    columns: Sequence[Column],
    layout: TableLayout = PLAIN,
) -> None:
    """Raise `DataError` if a file's name does not say how it is read."""
    suffix = suffix_of(location)
    is_lines = suffix == LINES and len(columns) == 1
    if suffix in TABLES or is_lines or layout.separator is not None:
        return

    raise DataError(
        f"`{location}` has the suffix {suffix!r}; expected one of {', '.join(TABLES)}, or `hub:ID`; convert or "
        "rename the file"
    )


def local_file(location: str, revision: str | None = None) -> Path:
    """Return the file that a location names; a file of the hub is downloaded if the hub's cache lacks it.

    Raises:
        DataError: if it does not exist, is a directory, or cannot be downloaded.
    """
    if location.startswith(HUB):
        from huggingface_hub import hf_hub_download

        repository, file = _hub_parts(location)
        with _hub_errors(location, revision):
            return Path(
                hf_hub_download(
                    repository, file, repo_type="dataset", revision=revision
                )
            )

    path = locate(location)
    if not path.is_file():
        raise DataError(
            "this is a directory; expected a file; name the file in it", path
        )

    return path


def require_string(
    value: object,
    column: str,
    file: object,
    number: int,
) -> str:
    """Return a value that is a text, which may be empty. Raises `DataError` for another value."""
    if isinstance(value, str):
        return value
    raise DataError(
        f"column `{column}`: found {value!r:.80} ({type(value).__name__}); expected a text; correct or remove "
        "the row",
        file,
        number,
    )


def require_text(
    value: object,
    column: str,
    file: object,
    number: int,
) -> str:
    """Return a value that is a text with more than white space. Raises `DataError` for another value."""
    value = require_string(value, column, file, number)
    if not value or value.isspace():
        raise DataError(
            f"column `{column}`: the text is empty; expected a text; correct or remove the row",
            file,
            number,
        )

    return value


def require_number(
    value: object,
    column: str,
    file: object,
    number: int,
    limits: tuple[float, float] | None = None,
) -> float:
    """Return a value, which may be written as a text, as a finite number, within the inclusive `limits` if given.

    Raises `DataError` for another value.
    """
    low, high = limits or (-math.inf, math.inf)

    try:
        # `float` reads "1_0" as 10, as in Python source; in a data file it is a typing error.
        parsed = float(str(value).replace("_", "?"))
    except ValueError:
        parsed = float("nan")
    if not low <= parsed <= high or math.isinf(parsed):
        raise DataError(
            f"column `{column}`: found {value!r:.80}; expected a number from {low:g} to {high:g}; correct or "
            "remove the row",
            file,
            number,
        )

    return parsed


def find_columns(
    columns: Iterable[Column],
    names: Sequence[str],
    file: object,
    number: int | None = None,
) -> list[str]:
    """Return the name in a table of each of `columns`; `names` are those of the table.

    Raises:
        DataError: if the table lacks a column, or has it more than once. `number` is the line of the names.
    """
    found = []

    for column in columns:
        name = column
        if not isinstance(name, str):
            name = _usual_name(name, names)
        if names.count(name) != 1:
            times = names.count(name) or "no"
            choices = suggest(name, [str(other) for other in names[:20]])
            raise DataError(
                f"found {times} column `{name}`, expected one; name the columns of the file.{choices}",
                file,
                number,
            )
        found.append(name)

    return found


def _usual_name(usual: Sequence[str], names: Sequence[str]) -> str:
    """Return the first of the usual names of a column that is among `names`; if none is, the first."""
    for name in usual:
        for other in names:
            if other.lower() == name:
                return other

    return usual[0]


def _file_rows(
    path: Path,
    columns: Sequence[Column],
    layout: TableLayout,
) -> Iterator[Row]:
    """Return the rows of a file."""
    suffix = suffix_of(path.name)
    if layout.separator is not None:
        return _separated_rows(path, columns, layout, layout.separator)
    if suffix == LINES:
        return _line_rows(path, layout.encoding)
    if suffix == ".tsv":
        return _separated_rows(path, columns, layout, "\t")
    if suffix == ".csv":
        rows = csv_rows(decoded_lines(path, layout.encoding), path)
        return _selected(rows, columns, layout, path)
    if suffix == ".jsonl":
        return _json_rows(path, columns, layout.encoding)
    if suffix == ".parquet":
        return _parquet_rows(path, columns)

    return _arrow_rows(path, columns)


def _line_rows(path: Path, encoding: str) -> Iterator[Row]:
    """Yield the lines of a text file that are not blank."""
    for number, line in text_lines(path, encoding):
        if line and not line.isspace():
            yield number, [line]


def _separated_rows(
    path: Path,
    columns: Sequence[Column],
    layout: TableLayout,
    separator: str,
) -> Iterator[Row]:
    """Return the rows of a text file, with the parts of a line between separators as fields."""

    def rows() -> Iterator[tuple[int, list[str]]]:
        for number, line in text_lines(path, layout.encoding):
            yield number, line.split(separator)

    return _selected(rows(), columns, layout, path)


def _selected(
    rows: Iterator[tuple[int, list[str]]],
    columns: Sequence[Column],
    layout: TableLayout,
    path: Path,
) -> Iterator[Row]:
    """Yield rows of fields with their fields in `columns`, of which the first row is the header, if any."""
    places = []
    width = 0
    if layout.header:
        line, header = next(rows, (1, []))
        width = len(header)
        names = find_columns(columns, header, path, line)
        places = [header.index(name) for name in names]
    else:
        for column in columns:
            if not str(column).isdecimal():
                raise DataError(
                    f"the column {column!r} is no position, and the file has no header; name columns by their "
                    'positions from "0"',
                    path,
                )
            places.append(int(str(column)))

    last = max(places)
    blank = None

    for number, fields in rows:
        if layout.skip_short_rows and len(fields) < width:
            continue
        if not fields or fields == [""]:
            blank = blank or number
            continue
        if blank is not None:
            raise DataError("the line is blank; remove it", path, blank)
        if not width and not layout.further_fields:
            width = max(len(fields), last + 1)
        if len(fields) <= last or (width and len(fields) != width):
            raise DataError(
                f"the row has {len(fields)} field(s); expected {width or last + 1}; quote a text with a comma in "
                "`.csv`, and write no tab in a text of `.tsv`",
                path,
                number,
            )
        yield number, [fields[place] for place in places]


def _json_rows(
    path: Path,
    columns: Sequence[Column],
    encoding: str,
) -> Iterator[Row]:
    """Yield the values of the keys `columns` of each object in a JSON Lines file."""
    names: list[str] = []

    for number, line in text_lines(path, encoding):
        if not line or line.isspace():
            continue
        row = json_object(line, path, number)
        if not names or not row.keys() >= set(names):
            names = find_columns(columns, list(row), path, number)
        yield number, [row[name] for name in names]


def _parquet_rows(path: Path, columns: Sequence[Column]) -> Iterator[Row]:
    """Yield the rows of a Parquet file."""
    from pyarrow import parquet

    readable = foreign(
        partial(DataError, file=path),
        "the file cannot be read as Parquet",
        "write it again",
    )

    with readable, parquet.ParquetFile(path) as file:
        names = find_columns(columns, file.schema_arrow.names, path)
        batches = file.iter_batches(BATCH_ROWS, columns=sorted(set(names)))
        yield from _numbered(batches, names)


def _arrow_rows(path: Path, columns: Sequence[Column]) -> Iterator[Row]:
    """Yield the rows of a file in one of Arrow's two IPC formats."""
    import pyarrow

    readable = foreign(
        partial(DataError, file=path),
        "the file cannot be read as Arrow IPC",
        "write it again",
    )

    with readable, pyarrow.OSFile(str(path)) as source:
        is_file = source.read(6) == b"ARROW1"
        source.seek(0)
        if is_file:
            file = pyarrow.ipc.open_file(source)
            batches = map(file.get_batch, range(file.num_record_batches))
        else:
            file = pyarrow.ipc.open_stream(source)
            batches = iter(file)
        names = find_columns(columns, file.schema.names, path)
        yield from _numbered(map(_validated, batches), names)


def _validated(batch: Any) -> Any:
    """Return a record batch, after a check of its content: pyarrow follows wrong offsets out of the file."""
    batch.validate(full=True)
    return batch


def _numbered(batches: Iterable[Any], names: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of record batches."""
    number = 0

    for batch in batches:
        values = []
        for name in names:
            values.append(batch.column(name).to_pylist())

        for row in zip(*values, strict=True):
            number += 1
            yield number, list(row)


def _hub_rows(
    location: str,
    columns: Sequence[Column],
    layout: TableLayout,
) -> Iterator[Row]:
    """Return the rows of a data set of the hub, which `datasets` reads."""
    import datasets

    with _hub_errors(location, layout.revision):
        table = datasets.load_dataset(
            _hub_parts(location)[0],
            name=layout.config,
            split=layout.split,
            revision=layout.revision,
        )

    names = find_columns(columns, table.column_names, location)
    selected = table.select_columns(sorted(set(names))).with_format("arrow")
    return _numbered(selected.iter(BATCH_ROWS), names)


def _hub_parts(location: str) -> tuple[str, str]:
    """Return the repository, or the directory on this machine, of a location, and the file in it (or nothing)."""
    name = location.removeprefix(HUB)
    if name.startswith((".", "/", "~")):
        return str(Path(name).expanduser()), ""

    owner, _, rest = name.partition("/")
    repository, _, file = rest.partition("/")
    if not repository:
        return owner, ""

    return f"{owner}/{repository}", file


def _hub_errors(location: str, revision: str | None) -> Any:
    """Return a context manager that turns exceptions of the hub's libraries into a `DataError`."""
    repository, _ = _hub_parts(location)
    return hub_errors(
        partial(DataError, file=location), "dataset", repository, revision
    )
