"""Readers of text columns from CSV, TSV, JSONL, Parquet, Arrow, plain text and the Hugging Face hub.

Every reader is strict: a text is read exactly as it is in the file, including white space, or a `DataError`
names the file and the line. Only `\\n` and `\\r\\n` end a line; U+0085 and U+2028 are part of a text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from numbers import Real
from pathlib import Path
from typing import Any, TypeAlias

from sentbed import DataError
from sentbed_common import LONGEST_LINE

from sentbed_data import hub
from sentbed_data.csv_tsv_jsonl import Rows, shortened_list, table_rows
from sentbed_data.file_paths import local_file
from sentbed_data.parquet_arrow import (
    ARROW,
    PARQUET,
    arrow_rows,
    parquet_rows,
    require_package,
)
from sentbed_data.text_lines import decoded_lines, without_line_end

TABLES = (".csv", ".tsv", ".jsonl", PARQUET, ARROW)
"""Suffixes of files with named columns."""

LINES = ".txt"
"""Suffix of files with one text per line."""

GZIP = ".gz"
"""Suffix of a text file that is compressed by gzip; it follows the suffix of the file's format."""

COMPRESSIBLE = (".csv", ".tsv", ".jsonl", LINES)
"""Suffixes of text files, which may be followed by `.gz`."""

Range: TypeAlias = tuple[float, float]
"""The smallest and the largest number that a column may have."""

NO_NUMBERS: Mapping[str, Range] = {}

BLANK = "rows with a blank text"
"""Reason for which rows are left out."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def read_rows(  # noqa: PLR0913 - keywords
    location: str,
    names: Sequence[str],
    *,
    header: bool = True,
    encoding: str = "utf-8",
    config: str | None = None,
    split: str = "train",
    revision: str | None = None,
    limit: int | None = None,
    labels: Collection[str] = (),
    numbers: Mapping[str, Range] = NO_NUMBERS,
    left_out: Counter[str] | None = None,
) -> Iterator[Sequence[Any]]:
    """Yield the values of each row in the columns `names`: texts, except in the columns `numbers`.

    `location` is a data set of the hub (`hub:OWNER/NAME`), or a file with a suffix in `TABLES`: a location for
    `sentbed.locate` or a file of the hub (`hub:OWNER/NAME/FILE`). With `header=False`, a CSV or TSV file has no
    header row, and its fields must be exactly `names`, in order. `config` and `split` apply to a data set of
    the hub, `revision` also to a file of the hub. Only the first `limit` rows are read.

    In the columns `labels`, whole numbers are accepted too, and read as texts. The columns `numbers` have
    numbers in the given range, which are read as floats.

    With `left_out`, rows with a blank or missing text are left out, and counted in it under `BLANK`.

    Raises:
        DataError: if a file or column is missing, there is no row, or a row is malformed; with file and line.
    """
    if hub.is_data_set(location):
        rows = hub.hub_rows(location, names, config, split, revision, limit)
        return checked_rows(
            rows, names, location, limit, "row ", labels, numbers, left_out
        )

    path = resolve(location, TABLES, revision)
    suffix = suffix_of(location)
    row_word: str | None = "row "
    if suffix == PARQUET:
        rows = parquet_rows(path, names)
    elif suffix == ARROW:
        rows = arrow_rows(path, names)
    else:
        rows = table_rows(path, suffix, encoding, names, header)
        row_word = None

    return checked_rows(rows, names, path, limit, row_word, labels, numbers, left_out)


def columns_of_rows(rows: Iterable[Sequence[Any]], width: int) -> list[list[Any]]:
    """Return the `width` columns of rows."""
    columns: list[list[Any]] = [[] for _ in range(width)]
    for row in rows:
        for column, text in zip(columns, row, strict=True):
            column.append(text)

    return columns


def read_lines(
    location: str,
    *,
    encoding: str = "utf-8",
    revision: str | None = None,
    limit: int | None = None,
) -> Iterator[str]:
    """Yield the first `limit` lines of a text file that are not blank; `revision` is for a file of the hub.

    Raises:
        DataError: if the file does not exist, is not in `encoding`, or has only blank lines.
    """
    path = resolve(location, (LINES,), revision)
    texts = filter(str.strip, map(without_line_end, decoded_lines(path, encoding)))
    empty = True
    for text in islice(texts, limit):
        empty = False
        yield text

    if empty:
        raise DataError(
            "the file has no text; expected one text a line; check how it was made",
            path,
        )


def suffix_of(location: str) -> str:
    """Return the suffix of a file's format in lower case, such as `.csv` for `a.csv.gz`."""
    path = Path(location.lower())
    inner = path.with_suffix("").suffix
    if path.suffix == GZIP and inner in COMPRESSIBLE:
        return inner
    return path.suffix


def require_format(location: str, suffixes: Sequence[str]) -> None:
    """Raise `DataError` if a file's suffix is not in `suffixes`, or if the reader is not installed."""
    suffix = suffix_of(location)
    if suffix not in suffixes:
        raise DataError(
            f"`{location}` has the suffix {suffix!r}; expected one of "
            f"{shortened_list(sorted(suffixes))}, or `hub:ID`; convert or rename the file"
        )

    if suffix in (PARQUET, ARROW):
        require_package("pyarrow", suffix.removeprefix("."))


def resolve(
    location: str,
    suffixes: Sequence[str],
    revision: str | None = None,
) -> Path:
    """Return the path of the file that `location` names; it exists and has one of `suffixes`.

    A file of the hub is downloaded, at `revision` or the newest commit, if it is not in the hub's cache.

    Raises:
        DataError: if the file does not exist or has another suffix, or if its reader is not installed.
    """
    require_format(location, suffixes)
    if hub.is_file(location):
        return hub.hub_file(location, revision)
    return local_file(location)


def problem_of_text(value: object) -> str | None:
    """Return what is wrong with a value that should be a text; None if nothing is wrong."""
    if not isinstance(value, str):
        return f"found {value!r:.80} ({type(value).__name__}); expected a text; correct or remove the row"
    if len(value) > LONGEST_LINE:
        return f"the text has {len(value):,} characters, more than {LONGEST_LINE:,}; cut or remove the row"
    if not value or value.isspace():
        return (
            "the text is empty; expected a text; correct or remove the row, or set "
            '`blank = "leave-out"` in `pairs`, `triplets`, `dropout` or `scored`'
        )
    if "\0" in value:
        return f"the text {value!r:.40} has a NUL byte, which is in no text; correct or remove the row"
    if not value.isascii() and _LONE_SURROGATE.search(value):
        return "the text has half of a surrogate pair, which is no character; correct or remove the row"
    return None


def parse_number(value: object, limits: Range) -> float | str:
    """Return a number, which may be written as a text, or a message on what is wrong; `limits` are inclusive."""
    low, high = limits
    expected = f"expected a number from {low:g} to {high:g}"
    if isinstance(value, bool) or not isinstance(value, str | Real):
        return f"found {value!r:.80} ({type(value).__name__}); {expected}; correct or remove the row"

    written = value
    if isinstance(value, str):
        # `float` reads "1_0" as 10, as in Python source; in a data file it is a typing error.
        written = value.replace("_", "?")
    try:
        number = float(written)
    except (ValueError, OverflowError):
        return f"found {value!r:.80}; {expected}; correct or remove the row"

    if not low <= number <= high:
        return f"found {value!r:.80}; {expected}; correct the row, or set `score_range`"
    return number


def checked_rows(
    rows: Rows,
    names: Sequence[str],
    file: object,
    limit: int | None,
    row_word: str | None,
    labels: Collection[str],
    numbers: Mapping[str, Range],
    left_out: Counter[str] | None = None,
) -> Iterator[Sequence[Any]]:
    """Yield the first `limit` rows, with every value checked; see `read_rows` for the last three arguments.

    `row_word` is the word before a row's number in messages; None if the numbers are those of lines. Raises
    `DataError` for an invalid value, or if there is no row.
    """
    empty = True
    for number, values in islice(rows, limit):
        if left_out is not None and _has_blank_text(values, names, numbers):
            left_out[BLANK] += 1
            continue
        empty = False
        checked_values: list[str | float] = []
        for name, value in zip(names, values, strict=True):
            checked_value, message = _checked_value(
                value, name in labels, numbers.get(name)
            )
            if message and row_word:
                raise DataError(f"{row_word}{number}, column `{name}`: {message}", file)
            if message:
                raise DataError(f"column `{name}`: {message}", file, number)

            checked_values.append(checked_value)

        yield checked_values

    if empty:
        raise DataError(
            "there are no rows of data; expected at least one; check how the file was made",
            file,
        )


def _has_blank_text(
    values: Sequence[object],
    names: Sequence[str],
    numbers: Collection[str],
) -> bool:
    """Whether a text of a row is missing (None), empty or white space alone."""
    for name, value in zip(names, values, strict=True):
        if name in numbers:
            continue
        if value is None or (isinstance(value, str) and not value.strip()):
            return True
    return False


def _checked_value(
    value: Any,
    is_label: bool,
    limits: Range | None,
) -> tuple[Any, str | None]:
    """Return a value as text, or as number if `limits` are given, and what is wrong with it (None: nothing)."""
    if is_label and type(value) is int:
        value = str(value)
    if limits is None:
        return value, problem_of_text(value)

    number_or_fault = parse_number(value, limits)
    if isinstance(number_or_fault, str):
        return value, number_or_fault
    return number_or_fault, None
