"""Reading of scored sentence pairs, strictly: what cannot be read is an error that names file and line."""

from __future__ import annotations

import codecs
import csv
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import attrs
from sentbed import DataError, locate
from sentbed.errors import suggest

SUFFIXES = (".csv", ".tsv", ".jsonl")

_Row: TypeAlias = tuple[int, tuple[str, str, object]]
"""Line, first sentence, second sentence, score as found."""


@attrs.frozen
class ScoredPairs:
    """Pairs of sentences with gold scores, in the order of the file."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    scores: tuple[float, ...]
    dropped: int = 0
    """Pairs of the file that have no gold score and are left out."""

    def __len__(self) -> int:
        return len(self.scores)


@attrs.frozen
class PairFile:
    """How scored pairs stand in one file."""

    path: str
    """The file; resolved by `sentbed.locate`."""
    columns: tuple[str, str, str] = ("sentence1", "sentence2", "score")
    """First sentence, second sentence and score: names of the header, or positions from 0 without one."""
    header: bool = True
    """Whether the first line names the columns."""
    separator: str | None = None
    """What stands between two columns, without quoting; None: by the suffix of the file."""
    encoding: str = "utf-8"
    """Text encoding; bytes that it does not allow are an error."""
    score_range: tuple[float, float] | None = None
    """Lowest and highest possible score, where known."""

    def problems(self) -> Iterator[str]:
        """Yield what is wrong, as far as it can be seen without reading the file."""
        try:
            if locate(self.path).is_dir():
                yield f"`{self.path}` is a directory; name a file of scored pairs"
        except DataError as error:
            yield str(error)
        yield from self._format_problems()

    def _format_problems(self) -> Iterator[str]:
        suffix = Path(self.path).suffix.lower()
        if self.separator is None and suffix not in SUFFIXES:
            yield (
                f"`{self.path}` ends in {suffix!r}, which says nothing about its columns; "
                f"rename it to one of {', '.join(SUFFIXES)} or set `separator`"
            )
        if self.separator == "":
            yield "`separator` is empty; give the characters that stand between two columns"
        if len(set(self.columns)) != 3:
            yield (
                f"`columns` is {list(self.columns)!r}, but three different columns are needed; "
                f"give first sentence, second sentence and score"
            )
        if not self.header and not self._is_jsonl:
            wrong = [column for column in self.columns if not (column.isascii() and column.isdigit())]
            if wrong:
                yield (
                    f"`columns` has {wrong!r}, but with `header = false` columns are positions; "
                    f'write them from zero, such as ["5", "6", "4"]'
                )
        if not self.header and self._is_jsonl:
            yield "`header = false` means nothing for a jsonl file, whose keys name the columns; remove it"
        yield from encoding_problems(self.encoding)

    @property
    def _is_jsonl(self) -> bool:
        return self.separator is None and Path(self.path).suffix.lower() == ".jsonl"

    def read(self) -> ScoredPairs:
        """Read all pairs; raises `DataError` that names file and line."""
        for problem in self._format_problems():
            raise DataError(problem)
        path = locate(self.path)
        text = read_text(path, self.encoding).rstrip("\r\n")
        if not text:
            raise DataError("the file is empty, but scored pairs were expected; check the download", path)
        if self._is_jsonl:
            rows: Iterator[_Row] = _read_json_rows(path, text, self.columns)
        elif self.separator is None and path.suffix.lower() == ".csv":
            rows = self._pick(path, read_csv_rows(path, text))
        else:
            rows = self._pick(path, split_rows(text, self.separator or "\t"))
        first, second, scores = [], [], []
        for line, (sentence1, sentence2, score) in rows:
            first.append(sentence1)
            second.append(sentence2)
            scores.append(parse_score(score, path, line, self.score_range))
        if not scores:
            raise DataError(
                "the file has a header and no pair below it; add pairs, or set `header = false` "
                "where the first line is a pair",
                path,
            )
        return ScoredPairs(tuple(first), tuple(second), tuple(scores))

    def _pick(self, path: Path, rows: Iterator[tuple[int, Sequence[str]]]) -> Iterator[_Row]:
        if self.header:
            names = next(rows)[1]
            positions = [position_of(column, names, path) for column in self.columns]
        else:
            positions = [int(column) for column in self.columns]
        for line, row in rows:
            if self.header and len(row) != len(names):
                raise DataError(
                    f"the row has {len(row)} columns, but the header has {len(names)}; "
                    f"repair the line or set the right `separator`",
                    path,
                    line,
                )
            if len(row) <= max(positions):
                raise DataError(
                    f"the row has {len(row)} columns, but {max(positions) + 1} were expected; "
                    f"repair the line or change `columns` or `separator`",
                    path,
                    line,
                )
            yield line, (row[positions[0]], row[positions[1]], row[positions[2]])


def encoding_problems(encoding: str) -> Iterator[str]:
    """Yield what is wrong with the name of a text encoding."""
    try:
        # `lookup` also knows codecs that are not for text, such as `hex`.
        codecs.lookup(encoding)
        "".encode(encoding)
    except LookupError:
        yield f"`encoding` is {encoding!r}, which Python does not know; use `utf-8`"


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """Return the text of a file, without a byte order mark; raises `DataError` at the first wrong byte."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"the file cannot be read ({error.strerror}); check path and rights", path) from error
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"found byte 0x{content[error.start]:02x}, which is not {encoding}; "
            f"convert the file to UTF-8 or name its encoding",
            path,
            line,
        ) from error


def read_lines(path: Path, encoding: str = "utf-8") -> list[str]:
    r"""Return the lines of a file, cut at "\n" alone: other separators occur inside sentences."""
    lines = [line.removesuffix("\r") for line in read_text(path, encoding).split("\n")]
    if not lines[-1]:
        lines.pop()
    if not lines:
        raise DataError("the file is empty; check the download", path)
    return lines


def parse_score(
    found: object, path: Path, line: int, score_range: tuple[float, float] | None = None
) -> float:
    """Return a finite score within its range; raises `DataError` that names file and line."""
    try:
        # `float` reads "1_0" as 10, as Python source does; in a data file it is a slip.
        value = float(found.replace("_", "?") if isinstance(found, str) else found)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise DataError(
            f"the score is {found!r}, but a finite number was expected; repair or remove the pair", path, line
        )
    if score_range is not None and not score_range[0] <= value <= score_range[1]:
        low, high = score_range
        raise DataError(
            f"the score is {value:g}, but scores here go from {low:g} to {high:g}; check the columns",
            path,
            line,
        )
    return value


def position_of(column: str, names: Sequence[str], path: Path) -> int:
    """Return the place of a column in the header; raises `DataError` where it is not there."""
    if names.count(column) != 1:
        found = "twice or more" if column in names else "not"
        raise DataError(
            f"column `{column}` is {found} in the header, but it is needed once; set `columns`."
            + ("" if column in names else suggest(column, names)),
            path,
            1,
        )
    return names.index(column)


def split_rows(text: str, separator: str) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield line number and fields of each line, cut at the separator, without quoting."""
    for line, row in enumerate(text.split("\n"), start=1):
        yield line, row.removesuffix("\r").split(separator)


def read_csv_rows(path: Path, text: str) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield line number and fields of each row, with RFC 4180 quoting."""
    reader = csv.reader(_with_line_ends(text.split("\n")), strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(
                f"the row is not valid CSV ({error}); quote fields that hold a comma, a quote or a line end",
                path,
                line,
            ) from error
        yield line, row


def _with_line_ends(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield line + "\n"


def _read_json_rows(path: Path, text: str, columns: Sequence[str]) -> Iterator[_Row]:
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"the line is not JSON ({error}); write one object a line", path, number
            ) from error
        if not isinstance(row, dict):
            raise DataError(
                f"the line is a JSON {type(row).__name__}, but an object was expected; "
                f"write one object a line",
                path,
                number,
            )
        for column in columns:
            if column not in row:
                raise DataError(
                    f"key `{column}` is missing; add it or set `columns`.{suggest(column, list(row))}",
                    path,
                    number,
                )
        first, second, score = (row[column] for column in columns)
        for column, sentence in zip(columns, (first, second), strict=False):
            if not isinstance(sentence, str) or not is_encodable(sentence):
                raise DataError(
                    f"`{column}` is {sentence!r}, but a text was expected; repair or remove the pair",
                    path,
                    number,
                )
        if isinstance(score, bool | str):
            raise DataError(
                f"`{columns[2]}` is {score!r}, but a number was expected; write it without quotes",
                path,
                number,
            )
        yield number, (first, second, score)


def is_encodable(text: str) -> bool:
    """Whether a text is without the lone surrogates that JSON escapes allow and tokenizers refuse."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
