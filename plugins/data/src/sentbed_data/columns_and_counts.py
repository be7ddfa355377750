"""Selection of a data set's columns, and messages about the rows that a source left out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence


def chosen_columns(columns: Sequence[str], choice: Collection[str] | None) -> list[str]:
    """Return the columns that are in `choice`, in the order of `columns`; all columns if `choice` is None."""
    if choice is None:
        return list(columns)

    return [column for column in columns if column in choice]


def counts_text(left_out: Mapping[str, int]) -> str:
    """Return a clause with the number of rows left out for each reason, such as `3 rows without gold label`."""
    return ", ".join(f"{times} {reason}" for reason, times in left_out.items())
