"""Readers of CSV, TSV and JSONL files, line by line, so that every error has a line number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TypeAlias

from sentbed import DataError
from sentbed_common import csv_rows, json_object

from sentbed_data.text_lines import decoded_lines, without_line_end

Rows: TypeAlias = Iterator[tuple[int, Sequence[object]]]
"""Rows of a file. Each has a number, from 1 (the line's or, in formats without lines, the row's), and the
values of the requested columns."""


MOST_LISTED = 20
"""Largest number of column names in a message."""

LONGEST_NAME = 100
"""Largest number of characters of a column's name in a message."""


def tsv_rows(lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each line, and the line's fields, which tabs separate."""
    for number, line in enumerate(lines, 1):
        yield number, without_line_end(line).split("\t")


def selected_fields(
    path: Path,
    rows: Iterator[tuple[int, list[str]]],
    names: Sequence[str],
    header: bool,
    hint: str,
) -> Rows:
    """Yield the number of every row, and its fields in the columns `names`.

    Without a header, the rows must have exactly these fields. If a row has another number of fields than the
    first row, the message ends with the advice `hint`.
    """
    places = list(range(len(names)))
    width = len(names)
    reason = f"{shortened_list(names)}, as there is no header"
    if header:
        first = next(rows, None)
        if first is None:
            return

        line, header_names = first
        advice = _advice_on_header(header_names)
        places = [
            column_index(name, header_names, path, line, advice) for name in names
        ]
        width = len(header_names)
        reason = "as the header has"

    for line, row in rows:
        if row in ([], [""]):
            raise DataError(
                f"the line is blank; expected {width} field(s); remove the line",
                path,
                line,
            )
        if len(row) != width:
            raise DataError(
                f"the row has {len(row)} field(s); expected {width}, {reason}; {hint}",
                path,
                line,
            )

        yield line, [row[place] for place in places]


def table_rows(
    path: Path,
    suffix: str,
    encoding: str,
    names: Sequence[str],
    header: bool = True,
) -> Rows:
    """Yield the values of the columns `names` in every row; `suffix` is `.csv`, `.tsv` or `.jsonl`."""
    lines = decoded_lines(path, encoding)
    if suffix == ".jsonl":
        return jsonl_rows(path, lines, names)
    if suffix == ".csv":
        rows, hint = csv_rows(lines, path), "quote a text that contains a comma"
    else:
        rows, hint = tsv_rows(lines), "a text must not contain a tab"

    return selected_fields(path, rows, names, header, hint)


def jsonl_rows(
    path: Path,
    lines: Iterator[str],
    names: Sequence[str],
) -> Rows:
    """Yield the number of each line, and the values of the keys `names` in the line's JSON object."""
    for number, line in enumerate(lines, 1):
        row = json_object(line, path, number, f"an object with {shortened_list(names)}")
        keys = list(row)
        for name in names:
            column_index(name, keys, path, number)
        yield number, [row[name] for name in names]


def _advice_on_header(columns: Sequence[str]) -> str:
    """Return what to do if the first line of a table lacks a column: it may be a row, or separated otherwise."""
    if len(columns) == 1:
        for separator in (";", "\t", "|", ","):
            if separator in columns[0]:
                return f"{separator!r} seems to separate the fields; write it as .csv with ',' or .tsv with tabs"
    return "name the columns of the file in the recipe, or set `header = false` if the first line is a row"


def column_index(
    name: str,
    columns: Sequence[str],
    file: object,
    line: int | None,
    advice: str = "name the columns of the file in the recipe",
) -> int:
    """Return the index of `name` in `columns`; raises `DataError` unless it occurs exactly once.

    The message ends with `advice`, unless a column has a similar name.
    """
    times = columns.count(name)
    if times == 1:
        return columns.index(name)
    if times:
        raise DataError(
            f"there are {times} columns `{name}`; expected one; rename the others",
            file,
            line,
        )

    close = get_close_matches(name, columns, n=1)
    if close:
        advice = f"did you mean `{_shortened(close[0])}`?"
    raise DataError(
        f"there is no column `{name}`; found {shortened_list(columns)}; {advice}",
        file,
        line,
    )


def shortened_list(names: Sequence[str]) -> str:
    """Return names in backticks for a message: the first `MOST_LISTED` names, and the number of others."""
    if not names:
        return "no columns"

    shown = [f"`{_shortened(name)}`" for name in names[:MOST_LISTED]]
    if more := len(names) - len(shown):
        shown.append(f"and {more:,} more")
    return ", ".join(shown)


def _shortened(name: str) -> str:
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[:LONGEST_NAME]}..."
