"""Data frames as comma-separated values (CSV), without rounding."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pandas import DataFrame

FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")
"""With these a formula begins in a spreadsheet. Names may be those of somebody else's results."""


def csv_text(frame: DataFrame) -> str:
    """Return a data frame as CSV, with an apostrophe before a text that a spreadsheet would compute."""
    text: str = frame.map(_without_formula).to_csv(index=False, lineterminator="\n")
    return text


def _without_formula(value: object) -> object:
    """Return a value, after an apostrophe if it is a text that begins a formula. A number such as -2 is none."""
    if not isinstance(value, str):
        return value
    # Readers would take a carriage return for the end of the line, since the writer does not quote it.
    text = value.replace("\r", "\n")
    if not value.startswith(FORMULA_SIGNS):
        return text
    try:
        float(value)
    except ValueError:
        return f"'{text}"
    return text
