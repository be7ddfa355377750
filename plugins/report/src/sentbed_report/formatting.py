"""Formatting of numbers, times and counts as text for readers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal

from sentbed.protocols import ExpectedRow

MINUS = "−"

MISSING = "–"
"""Text of a number or text that is unknown."""

MET, NOT_MEASURED = "met", "not measured"
"""Verdicts on an expected number; see `expected_verdict`."""

MOST_NAMES = 4
"""Largest number of names that a sentence lists."""

SIGNS = ((0.01, "‡"), (0.05, "†"))
"""Pairs of a level and the sign for p-values below this level, the smallest level first."""


def number(value: float | None, digits: int = 2) -> str:
    """Return a number with `digits` decimals and a typographic minus.

    NaN is `undefined`, infinity `not finite`; None is `–`.
    """
    if value is None:
        return MISSING
    if math.isnan(value):
        return "undefined"
    if not math.isfinite(value):
        return "not finite"
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    return text.replace("-", MINUS)


def cost_digits(values: Iterable[float]) -> int:
    """Return the number of decimals for a column of costs, which may differ in magnitude.

    It gives three significant digits of the smallest number, but at most six significant digits of the largest.
    """
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    if not sizes:
        return 0
    smallest_exponent = math.floor(math.log10(min(sizes)))
    largest_exponent = math.floor(math.log10(max(sizes)))
    return max(0, min(2 - smallest_exponent, 5 - largest_exponent))


def signed(value: float | None, digits: int = 2) -> str:
    """Return a difference with its sign; `±0.00` if it is rounded to 0."""
    text = number(value, digits)
    if value is None or not math.isfinite(value) or text.startswith(MINUS):
        return text
    if float(text) == 0:
        return f"±{text}"
    return f"+{text}"


def interval_text(interval: tuple[float, float] | None, digits: int = 2) -> str:
    """Return an interval, such as `48.10 to 51.90`; empty for None."""
    if interval is None:
        return ""
    low, high = interval
    return f"{number(low, digits)} to {number(high, digits)}"


def range_text(low: int, high: int) -> str:
    """Return a range of whole numbers, such as `2 to 4`; a single number if both ends are equal."""
    if low == high:
        return str(low)
    return f"{low} to {high}"


def sign_of(p_value: float | None) -> str:
    """Return ‡ for a p-value below 0.01, † for one below 0.05, else an empty text."""
    if p_value is None:
        return ""
    for level, sign in SIGNS:
        if p_value < level:
            return sign
    return ""


def chance(p_value: float) -> str:
    """Return a p-value, followed by ‡ if it is below 0.01, or by † if it is below 0.05."""
    return f"{probability(p_value)} {sign_of(p_value)}".rstrip()


def probability(p_value: float) -> str:
    """Return a p-value with three decimals, or `< 0.001`."""
    if p_value < 0.001:
        return "< 0.001"
    return f"{p_value:.3f}"


def duration(seconds: float) -> str:
    """Return a duration, such as `45.2 s`, `12 min` or `3 h 12 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours == 0:
        return f"{minutes} min"
    return f"{hours:,} h {minutes} min"


def count(
    amount: int,
    noun: str,
    plural: str | None = None,
) -> str:
    """Return an amount with its noun in singular or plural, such as `1 score` or `1,200 scores`."""
    if amount != 1:
        noun = plural or f"{noun}s"
    return f"{amount:,} {noun}"


def first_names(names: Sequence[str]) -> str:
    """Return the first `MOST_NAMES` names, followed by the number of the others."""
    text = "; ".join(names[:MOST_NAMES])
    more = len(names) - MOST_NAMES
    if more > 0:
        text += f" and {more} more"
    return text


def expected_verdict(row: ExpectedRow) -> str:
    """Return the verdict on an expected number: whether it was met, or why there is no verdict."""
    if row.met:
        return MET
    if row.met is not None:
        return "not met"
    if row.found is not None and row.contradicted:
        return "contradicted"
    if row.found is not None:
        return "to compare"
    if row.fits > 1:
        return f"fits {row.fits} scores: say which (TASK/METRIC@PROTOCOL)"
    return NOT_MEASURED


def expected_digits(row: ExpectedRow) -> int:
    """Return the number of decimals of an expected number: as in the recipe, but at least 2 and at most 6."""
    digits = 2
    for stated in (row.value, row.tolerance):
        if stated is None or not math.isfinite(stated):
            continue
        shortest = Decimal(repr(float(stated))).normalize()
        digits = max(digits, -int(shortest.as_tuple().exponent))
    return min(6, digits)
