"""Triplets: a text, one that follows from it, and one that contradicts it."""

from __future__ import annotations

from typing import ClassVar

import attrs
from sentbed.protocols import Dataset

from sentbed_data.file_source import FileSource


@attrs.frozen(kw_only=True)
class Triplets(FileSource):
    """Rows of a premise, its entailment and its contradiction (the hard negative).

    The default names are those of the NLI file of supervised SimCSE (Gao et al., 2021, section 4).
    """

    name: ClassVar[str] = "triplets"

    anchor: str = "sent0"
    """Column of the premise."""
    positive: str = "sent1"
    """Column of the entailment."""
    negative: str = "hard_neg"
    """Column of the contradiction."""

    @property
    def columns(self) -> tuple[str, ...]:
        """`anchor`, `positive` and `negative`."""
        return ("anchor", "positive", "negative")

    def open(self) -> Dataset:
        """Read the file. Raises `DataError` with file and line."""
        names = (self.anchor, self.positive, self.negative)
        return self._table(names, {"anchor": 0, "positive": 1, "negative": 2})
