"""The source `triplets`: rows of a text, a text that follows from it, and hard negatives."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs
from attrs.validators import min_len
from sentbed.protocols import Dataset

from sentbed_data.table_source_base import TextSource, as_tuple

MOST_NEGATIVES = 8
"""Largest number of hard negatives in a row that the losses accept."""


def few_negatives(
    _: Any,
    attribute: attrs.Attribute[Any],
    value: str | tuple[str, ...],
) -> None:
    """Raise `ValueError` for more hard negatives than the losses accept; an attrs validator."""
    if not isinstance(value, str) and len(value) > MOST_NEGATIVES:
        raise ValueError(
            f"`{attribute.name}` names {len(value)} columns, and losses take at most {MOST_NEGATIVES} hard "
            "negatives a row; name fewer"
        )


@attrs.frozen(kw_only=True)
class Triplets(TextSource):
    """Rows of a premise, its entailment and its contradiction (the hard negative).

    The default column names are those of the NLI file of supervised SimCSE (Gao et al., 2021, section 4).
    """

    name: ClassVar[str] = "triplets"

    anchor: str = "sent0"
    """Column of the premise."""
    positive: str = "sent1"
    """Column of the entailment."""
    negative: str | tuple[str, ...] = attrs.field(
        default="hard_neg", validator=[min_len(1), few_negatives]
    )
    """Column of the contradiction, or an array of the columns of at most 8 hard negatives: `["hard_neg_1",
    "hard_neg_2"]`."""

    @property
    def columns(self) -> tuple[str, ...]:
        """`anchor`, `positive` and `negative`; of several hard negatives also `negative_2`, ..."""
        return ("anchor", "positive", *negative_columns(len(self._negatives)))

    @property
    def _negatives(self) -> tuple[str, ...]:
        return as_tuple(self.negative)

    @property
    def _file_columns(self) -> tuple[str, ...]:
        return (self.anchor, self.positive, *self._negatives)

    def open(self) -> Dataset:
        """Read the files. Raises `DataError`, with file and row, if a row is invalid."""
        return self._open({column: place for place, column in enumerate(self.columns)})


def negative_columns(count: int) -> tuple[str, ...]:
    """Return the data set's names for the columns of `count` hard negatives: `negative`, `negative_2`, ..."""
    names = ["negative", *(f"negative_{number}" for number in range(2, count + 1))]
    return tuple(names[:count])
