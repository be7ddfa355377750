"""The source `nsp`: consecutive sentences of documents, as for next sentence prediction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, pairwise
from typing import ClassVar

import attrs
from sentbed import DataError
from sentbed_common import (
    HUB,
    TABLES,
    InMemoryDataset,
    Row,
    is_data_set,
    local_file,
    require_text,
    suffix_of,
    table_rows,
    text_lines,
)

from sentbed_data.table_source_base import TableSource, as_tuple, columns_of_rows


@attrs.frozen(kw_only=True)
class Nsp(TableSource):
    """A sentence and the next sentence of its document: SentBench's NSP (Devlin et al., 2019).

    A document with n sentences gives n - 1 rows, in reading order. `path` names tables or text files. A text file
    has one sentence per line; a blank line or the end of the file ends a document. A table has one sentence per
    row in reading order, and is one document.

    The hub's BookCorpus does not say where its 11,038 books begin, so that about one in 6,700 of its 74 million
    pairs has sentences of two books.
    """

    name: ClassVar[str] = "nsp"
    cites = ("liu2023sentbench", "devlin2019bert")

    column: str = "text"
    """Column of the sentences, in a table."""

    @property
    def columns(self) -> tuple[str, ...]:
        """`anchor` and `positive`."""
        return ("anchor", "positive")

    @property
    def _file_columns(self) -> tuple[str, ...]:
        return (self.column,)

    def open(self) -> InMemoryDataset:
        """Read the files. Raises `DataError`, with file and row, if a row is invalid."""
        pairs = list(islice(self._pairs(), self.limit))
        if not pairs:
            raise DataError(
                "there are no two sentences in a row; expected documents of two or more; check the file",
                self.path,
            )

        anchors, positives = columns_of_rows(pairs, 2)
        return InMemoryDataset({"anchor": anchors, "positive": positives})

    def _pairs(self) -> Iterator[tuple[str, str]]:
        """Yield all pairs of consecutive sentences."""
        for location in as_tuple(self.path):
            if self._is_table(location):
                rows = table_rows(location, self._file_columns, self._layout)
                yield from pairwise(self._sentences(rows, location))
                continue

            file = local_file(location, self.revision)
            for document in _documents(text_lines(file, self.encoding)):
                yield from pairwise(document)

    def _read_first_row(self, location: str) -> None:
        if self._is_table(location):
            super()._read_first_row(location)
        elif not location.startswith(HUB):
            next(text_lines(local_file(location), self.encoding), None)

    def _is_table(self, location: str) -> bool:
        """Whether a location is a table, not a text file."""
        if self.separator is not None:
            return True

        if is_data_set(location):
            return True

        return suffix_of(location) in TABLES

    def _sentences(self, rows: Iterable[Row], location: str) -> Iterator[str]:
        """Yield the sentences in rows of a table."""
        for number, (sentence,) in rows:
            yield require_text(sentence, self.column, location, number)


def _documents(lines: Iterable[tuple[int, str]]) -> Iterator[list[str]]:
    """Yield each block of consecutive lines that are not blank."""
    block: list[str] = []
    for _, line in lines:
        if line and not line.isspace():
            block.append(line)
            continue

        yield block
        block = []

    yield block
