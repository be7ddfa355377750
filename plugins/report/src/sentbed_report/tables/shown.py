"""Estimates as text: what all formats for readers show of a number."""

from __future__ import annotations

import math
from collections.abc import Iterator

import attrs

from sentbed_report.formatting import (
    expected_digits,
    interval_text,
    number,
    related_probability,
    sign_of,
    signed,
)
from sentbed_report.statistics.difference import Judged
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import DEGENERATE, Estimate

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@attrs.frozen
class Shown:
    """An estimate as text."""

    number: str
    spread: str = ""
    """Standard deviation, such as `± 0.71`; empty if it is unknown."""
    rank: str = ""
    """Rank, in superscript."""
    sign: str = ""
    """† or ‡ for a significant difference, ◇ for a degenerate number."""
    hint: str = ""
    """What the sign stands for, for a tooltip."""
    kind: str = ""
    """Whether a significant difference is `better` or `worse`; empty if neither is known."""
    below: tuple[str, ...] = ()
    """Further quantities, each with a line of its own: published number, interval, change by training."""

    def one_line(self, place: str = "{}") -> str:
        """Return all texts as one line; `place` is the format's mark for a best or second best number."""
        text = f"{place.format(self.number)} {self.spread}".rstrip()
        return ", ".join([f"{text}{self.rank}{self.sign}", *self.below])


def shown(estimate: Estimate, column: Column) -> Shown:
    """Return an estimate of a column as text."""
    spread = rank = ""
    if estimate.std is not None and math.isfinite(estimate.std):
        spread = f"± {number(estimate.std, column.digits)}"
    if estimate.rank is not None:
        rank = str(estimate.rank).translate(_SUPERSCRIPTS)

    sign = hint = kind = ""
    if estimate.degenerate:
        sign = DEGENERATE
        hint = f"degenerate: {estimate.degenerate}"
        kind = "degenerate"
    elif estimate.judged is not None and estimate.judged.significant:
        sign = sign_of(estimate.judged.corrected)
        hint = _comparison(estimate.judged, column)
        kind = _kind(estimate.judged, column)
    return Shown(
        column.text(estimate.value),
        spread,
        rank,
        sign,
        hint,
        kind,
        tuple(_below(estimate, column)),
    )


def _kind(judged: Judged, column: Column) -> str:
    if judged.difference is None or not column.ranked:
        return ""
    is_lower = judged.difference < 0
    if is_lower == column.lower:
        return "better"
    return "worse"


def _comparison(judged: Judged, column: Column) -> str:
    """Return the tooltip of a significance mark: difference, interval and p-values."""
    against = f" against {column.reference}" if column.reference else ""
    lines = [f"{signed(judged.difference, column.digits)}{against}"]
    if judged.interval is not None:
        lines.append(f"95 % interval {interval_text(judged.interval, column.digits)}")
    if judged.p_value is not None and judged.corrected is not None:
        p_value = related_probability(judged.p_value)
        corrected = related_probability(judged.corrected)
        lines.append(f"p {p_value}; after Holm's correction p {corrected}")
    if judged.basis:
        lines.append(f"over {judged.basis}")
    return "\n".join(lines)


def _below(estimate: Estimate, column: Column) -> Iterator[str]:
    for row in estimate.published:
        digits = expected_digits(row)
        text = f"published {number(row.value, digits)}"
        if row.difference is not None:
            text += f" ({signed(row.difference, digits)})"
        yield text
    if estimate.interval is not None:
        yield interval_text(estimate.interval, column.digits)
    if estimate.change is not None:
        yield signed(estimate.change, column.digits)
