"""The source `dropout`: sentences, each as its own positive (unsupervised SimCSE)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import ClassVar

import attrs
from sentbed.protocols import Dataset

from sentbed_data.file_source_base import FileSource
from sentbed_data.hub import is_data_set
from sentbed_data.readers import LINES, TABLES, read_lines, suffix_of


@attrs.frozen(kw_only=True)
class Dropout(FileSource):
    """A sentence, encoded twice: two dropout masks make the pair (Gao et al., 2021, section 3).

    Anchor and positive are the same text, so the encoder must have dropout above 0. A `.txt` file has one
    sentence per line, and its blank lines are skipped. In a table, `blank` says what an empty text is.
    """

    name: ClassVar[str] = "dropout"
    cites = ("gao2021simcse",)

    column: str = "text"
    """Column of the sentence, in a table."""

    @property
    def columns(self) -> tuple[str, ...]:
        """`anchor` and `positive`."""
        return ("anchor", "positive")

    @property
    def _file_columns(self) -> tuple[str, ...]:
        return (self.column,)

    def open(self) -> Dataset:
        """Read the file. Raises `DataError`, with file and line, if a row is invalid."""
        return self._table(self._file_columns, {"anchor": 0, "positive": 0})

    def _rows(
        self, names: Sequence[str], left_out: Counter[str]
    ) -> Iterator[Sequence[str]]:
        if suffix_of(self.path) != LINES or is_data_set(self.path):
            yield from super()._rows(names, left_out)
            return

        for line in read_lines(
            self.path,
            encoding=self.encoding,
            revision=self.revision,
            limit=self.limit,
        ):
            yield (line,)

    def _suffixes(self) -> Sequence[str]:
        return (*TABLES, LINES)
