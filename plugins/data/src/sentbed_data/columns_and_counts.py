"""Chosen columns of a data set, and the numbers of rows left out of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence


def chosen_columns(columns: Sequence[str], choice: Collection[str] | None) -> list[str]:
    """Return the columns of a data set that are among `choice`, or all of them if it is None."""
    if choice is None:
        return list(columns)
    return [column for column in columns if column in choice]


def counts_text(left_out: Mapping[str, int]) -> str:
    """Return the numbers of rows that were left out for a message, such as `3 rows without gold label`."""
    return ", ".join(f"{times} {reason}" for reason, times in left_out.items())
