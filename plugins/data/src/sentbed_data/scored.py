"""The source `scored`: pairs of texts with a score, optionally with hard negatives."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, ClassVar

import attrs
from sentbed_common import (
    InMemoryDataset,
    TableLayout,
    require_number,
    require_text,
)

from sentbed_data.table_source_base import TableSource, as_tuple, columns_of_rows
from sentbed_data.triplets import few_negatives, negative_columns


@attrs.frozen(kw_only=True)
class Scored(TableSource):
    """Rows of two texts and a score, such as their similarity; optionally with hard negatives.

    Scores must be in `score_range`, which is mapped to [0, 1]. A score outside the range is an error.
    """

    name: ClassVar[str] = "scored"
    numbers = frozenset({"score"})

    anchor: str = "sentence1"
    """Column of the first text. In STS-B's files, which have no header and tabs between their fields, the columns
    are `"5"`, `"6"` and `"4"`."""
    positive: str = "sentence2"
    """Column of the second text."""
    negative: str | tuple[str, ...] = attrs.field(default=(), validator=few_negatives)
    """Column of a hard negative, or an array of at most 8 columns: `["negative_a", "negative_b"]`.
    Default: none."""
    score: str = "score"
    """Column of the score."""

    score_range: tuple[float, float] = (0.0, 1.0)
    """Smallest and largest possible score: `[0, 5]` for STS-B, `[1, 5]` for SICK."""
    rescale: bool = True
    """Whether `score_range` is mapped to [0, 1]. If false, scores are not changed, as for a teacher's margins
    (loss `margin-mse`)."""

    def check(self) -> Iterator[str]:
        """Yield problems that show without reading more than the first row."""
        yield from super().check()
        low, high = self.score_range
        if not -math.inf < low < high < math.inf:
            yield (
                f"`score_range` is [{low:g}, {high:g}]; expected the smallest score, then a larger one, both "
                "finite; correct it"
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """`anchor`, `positive`, hard negatives if there are any, and `score`."""
        negatives = negative_columns(len(as_tuple(self.negative)))
        return ("anchor", "positive", *negatives, "score")

    @property
    def _file_columns(self) -> tuple[str, ...]:
        return (self.anchor, self.positive, *as_tuple(self.negative), self.score)

    @property
    def _layout(self) -> TableLayout:
        return attrs.evolve(super()._layout, further_fields=True)

    def open(self) -> InMemoryDataset:
        """Read the files. Raises `DataError`, with file and row, if a row is invalid."""
        columns = columns_of_rows(self._scored(), len(self.columns))
        values = dict(zip(self.columns, columns, strict=True))
        table = InMemoryDataset(values)
        self._require_rows(len(table))
        return table

    def _scored(self) -> Iterator[Sequence[Any]]:
        """Yield the texts and the score of the first `limit` rows."""
        low, high = self.score_range
        names = self._file_columns
        rows = islice(self._rows(), self.limit)
        for file, number, (*texts, written) in rows:
            for text, name in zip(texts, names[:-1], strict=True):
                require_text(text, name, file, number)

            score = require_number(written, names[-1], file, number, self.score_range)
            if self.rescale:
                score = (score - low) / (high - low)

            yield *texts, score
