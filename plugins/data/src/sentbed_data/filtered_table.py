"""A table that counts the rows left out of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import attrs
from sentbed_common import InMemoryDataset


@attrs.frozen(eq=False)
class FilteredTable(InMemoryDataset):
    """Columns of text, with the numbers of rows that were left out of the files."""

    left_out: Mapping[str, int] = attrs.field(factory=dict)
    """Description of the rows that were left out -> their number; numbers of 0 are omitted."""


def chosen_columns(columns: Sequence[str], choice: Collection[str] | None) -> list[str]:
    """Return the columns of a data set that are among `choice`, or all of them if it is None."""
    if choice is None:
        return list(columns)
    return [column for column in columns if column in choice]


def counts_text(left_out: Mapping[str, int]) -> str:
    """Return the numbers of rows that were left out for a message, such as `3 rows without gold label`."""
    return ", ".join(f"{times} {reason}" for reason, times in left_out.items())
