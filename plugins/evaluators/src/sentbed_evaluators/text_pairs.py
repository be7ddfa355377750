"""Reading of a file of sentence pairs without scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
from sentbed import DataError, locate

from sentbed_evaluators.json_lines import read_objects, text_of
from sentbed_evaluators.pairs import (
    SUFFIXES,
    encoding_problems,
    position_of,
    read_csv_rows,
    read_text,
    split_rows,
)


@attrs.frozen
class TextPairFile:
    """How pairs of texts stand in one file; the formats are those of `PairFile`."""

    path: str
    """The file; resolved by `sentbed.locate`."""
    columns: tuple[str, str]
    """First and second text: names of the header or keys, or positions from 0 without a header."""
    header: bool = True
    """Whether the first line names the columns."""
    separator: str | None = None
    """What stands between two columns, without quoting; None: by the suffix of the file."""
    encoding: str = "utf-8"
    """Text encoding; bytes that it does not allow are an error."""

    def problems(self) -> Iterator[str]:
        """Yield what is wrong, as far as it can be seen without reading the file."""
        suffix = Path(self.path).suffix.lower()
        if self.separator is None and suffix not in SUFFIXES:
            yield (
                f"`{self.path}` ends in {suffix!r}, which says nothing about its columns; "
                f"rename it to one of {', '.join(SUFFIXES)} or set `separator`"
            )
        if self.separator == "":
            yield "`separator` is empty; give the characters that stand between two columns"
        if self.columns[0] == self.columns[1]:
            yield f"`columns` names `{self.columns[0]}` twice; give the first and the second sentence's"
        wrong = [column for column in self.columns if not (column.isascii() and column.isdigit())]
        if not self.header and not self._is_jsonl and wrong:
            yield (
                f"`columns` has {wrong!r}, but with `header = false` columns are positions; "
                f'write them from zero, such as ["0", "1"]'
            )
        if not self.header and self._is_jsonl:
            yield "`header = false` means nothing for a jsonl file, whose keys name the columns; remove it"
        yield from encoding_problems(self.encoding)

    @property
    def _is_jsonl(self) -> bool:
        return self.separator is None and Path(self.path).suffix.lower() == ".jsonl"

    def read(self) -> tuple[list[str], list[str]]:
        """Return the first and the second texts, none blank; raises `DataError` that names file and line."""
        path = locate(self.path)
        first, second = [], []
        for line, texts in self._rows(path):
            for column, text in zip(self.columns, texts, strict=True):
                if not text.strip():
                    raise DataError(f"column `{column}` is empty; remove the pair", path, line)
            first.append(texts[0])
            second.append(texts[1])
        if not first:
            raise DataError("the file has no pair of sentences; check the download", path)
        return first, second

    def _rows(self, path: Path) -> Iterator[tuple[int, tuple[str, str]]]:
        if self._is_jsonl:
            for line, row in read_objects(path, self.encoding):
                yield (
                    line,
                    (text_of(row, self.columns[0], path, line), text_of(row, self.columns[1], path, line)),
                )
            return
        text = read_text(path, self.encoding).rstrip("\r\n")
        if not text:
            return
        is_csv = self.separator is None and path.suffix.lower() == ".csv"
        rows = read_csv_rows(path, text) if is_csv else split_rows(text, self.separator or "\t")
        yield from self._pick(path, rows)

    def _pick(
        self, path: Path, rows: Iterator[tuple[int, Sequence[str]]]
    ) -> Iterator[tuple[int, tuple[str, str]]]:
        names: Sequence[str] = next(rows)[1] if self.header else ()
        places = [position_of(column, names, path) if self.header else int(column) for column in self.columns]
        for line, row in rows:
            if len(row) <= max(places) or (self.header and len(row) != len(names)):
                expected = len(names) if self.header else max(places) + 1
                raise DataError(
                    f"the row has {len(row)} columns, but {expected} were expected; "
                    f"repair the line, or change `columns` or `separator`",
                    path,
                    line,
                )
            yield line, (row[places[0]], row[places[1]])
