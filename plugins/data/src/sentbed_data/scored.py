"""The source `scored`: pairs of texts with a score, optionally with hard negatives."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar, Literal

import attrs
from sentbed_common import (
    InMemoryDataset,
    TableLayout,
    require_number,
    require_text,
)

from sentbed_data.table_source_base import TableSource, as_tuple, columns_of_rows
from sentbed_data.triplets import few_negatives, negative_columns

_RANGES: Mapping[str, tuple[float, float]] = {
    "table": (0.0, 1.0),
    "sts-benchmark": (0.0, 5.0),
    "sick": (1.0, 5.0),
}
_COLUMNS = {
    "sts-benchmark": ("5", "6", "4"),
    "sick": ("sentence_A", "sentence_B", "relatedness_score"),
}
"""Columns of both texts and the score in published files: positions, or names in the header."""


@attrs.frozen(kw_only=True)
class Scored(TableSource):
    """Rows of two texts and a score, such as their similarity; optionally with hard negatives.

    Scores must be in `score_range`, which is mapped to [0, 1]. A score outside the range is an error.
    """

    name: ClassVar[str] = "scored"
    numbers = frozenset({"score"})

    format: Literal["table", "sts-benchmark", "sick"] = "table"
    """Layout of the file. `table`: columns with names. `sts-benchmark`: `sts-train.csv` as published with
    STS-B, with tabs and without a header. `sick`: `SICK_train.txt`."""
    anchor: str = "sentence1"
    """Column of the first text, in a table."""
    positive: str = "sentence2"
    """Column of the second text, in a table."""
    negative: str | tuple[str, ...] = attrs.field(default=(), validator=few_negatives)
    """Column of a hard negative in a table, or an array of at most 8 columns: `["negative_a", "negative_b"]`.
    Default: none."""
    score: str = "score"
    """Column of the score, in a table."""
    score_range: tuple[float, float] | None = None
    """Smallest and largest possible score, such as `[0, 5]`. Default: [0, 1] for a table, [0, 5] for STS-B,
    [1, 5] for SICK."""
    rescale: bool = True
    """Whether `score_range` is mapped to [0, 1]. If false, scores are not changed, as for a teacher's margins
    (loss `margin-mse`)."""

    def check(self) -> Iterator[str]:
        """Yield problems that show without reading more than the first row."""
        yield from super().check()
        low, high = self._range
        if not -math.inf < low < high < math.inf:
            yield (
                f"`score_range` is [{low:g}, {high:g}]; expected the smallest score, then a larger one, both "
                "finite; correct it"
            )

        fields = attrs.fields_dict(Scored)
        for name in ("anchor", "positive", "negative", "score", "header"):
            if self.format != "table" and getattr(self, name) != fields[name].default:
                yield f'`{name}` is for tables, and `format = "{self.format}"` is none; remove it'

    @property
    def columns(self) -> tuple[str, ...]:
        """`anchor`, `positive`, hard negatives if there are any, and `score`."""
        negatives = negative_columns(len(as_tuple(self.negative)))
        return ("anchor", "positive", *negatives, "score")

    @property
    def _range(self) -> tuple[float, float]:
        """Smallest and largest possible score, by `score_range` or the format."""
        return self.score_range or _RANGES[self.format]

    @property
    def _file_columns(self) -> tuple[str, ...]:
        if self.format != "table":
            return _COLUMNS[self.format]

        return (self.anchor, self.positive, *as_tuple(self.negative), self.score)

    @property
    def _layout(self) -> TableLayout:
        layout = super()._layout
        if self.format == "table":
            return layout

        is_sick = self.format == "sick"
        return attrs.evolve(layout, separator="\t", header=is_sick)

    def open(self) -> InMemoryDataset:
        """Read the files. Raises `DataError`, with file and row, if a row is invalid."""
        columns = columns_of_rows(self._scored(), len(self.columns))
        values = dict(zip(self.columns, columns, strict=True))
        table = InMemoryDataset(values)
        self._require_rows(len(table))
        return table

    def _scored(self) -> Iterator[Sequence[Any]]:
        """Yield the texts and the score of the first `limit` rows."""
        low, high = self._range
        names = self._file_columns
        rows = islice(self._rows(), self.limit)
        for file, number, (*texts, written) in rows:
            for text, name in zip(texts, names[:-1], strict=True):
                require_text(text, name, file, number)

            score = require_number(written, names[-1], file, number, self._range)
            if self.rescale:
                score = (score - low) / (high - low)

            yield *texts, score
