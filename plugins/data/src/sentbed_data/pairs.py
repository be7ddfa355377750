"""The source `pairs`: rows of two texts that belong together."""

from __future__ import annotations

from typing import ClassVar

import attrs
from sentbed.protocols import Dataset

from sentbed_data.table_source_base import TextSource


@attrs.frozen(kw_only=True)
class Pairs(TextSource):
    """Rows of two texts that belong together; the other rows of a batch serve as negatives."""

    name: ClassVar[str] = "pairs"

    anchor: str = "anchor"
    """Column of the first text."""
    positive: str = "positive"
    """Column of the text with the same meaning."""

    @property
    def columns(self) -> tuple[str, ...]:
        """`anchor` and `positive`."""
        return ("anchor", "positive")

    @property
    def _file_columns(self) -> tuple[str, ...]:
        return (self.anchor, self.positive)

    def open(self) -> Dataset:
        """Read the files. Raises `DataError`, with file and row, if a row is invalid."""
        return self._open({"anchor": 0, "positive": 1})
