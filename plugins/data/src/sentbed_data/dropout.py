"""The source `dropout`: sentences, each as its own positive (unsupervised SimCSE)."""

from __future__ import annotations

from typing import ClassVar

import attrs
from sentbed.protocols import Dataset

from sentbed_data.table_source_base import TextSource


@attrs.frozen(kw_only=True)
class Dropout(TextSource):
    """A sentence, encoded twice: two dropout masks make the pair (Gao et al., 2021, section 3).

    Anchor and positive are the same text, so the encoder must have dropout above 0. A `.txt` file has one
    sentence per line, and its blank lines are skipped. In a table, an empty text is an error.
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
        """Read the files. Raises `DataError`, with file and row, if a row is invalid."""
        return self._open({"anchor": 0, "positive": 0})
