"""`Estimate`: a number of a table with its quantities, such as standard deviation, interval and p-value.

Each quantity is listed once in `QUANTITIES`, with its names in JSON and CSV, and the text that readers see.
All formats of tables use this list, so that a new quantity is added only here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Literal, TypeAlias

import attrs
from sentbed.protocols import ExpectedRow

from sentbed_report.formatting import (
    expected_digits,
    expected_kind,
    expected_verdict,
    interval_text,
    number,
    related_probability,
    sign_of,
    signed,
)
from sentbed_report.statistics.difference import Judged
from sentbed_report.tables.column import Column

Place: TypeAlias = Literal[1, 2]
"""1 for the best number of a column, 2 for the second best; numbers that are printed equal share a place."""

DEGENERATE = "◇"
"""Mark of a number that says nothing about its encoder."""

MEAN_DECIMALS = 9
"""Number of decimals to which means are rounded before they are compared, since means have rounding errors."""

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@attrs.frozen
class Estimate:
    """A number of a table, with its quantities. Except p-values and counts, they have the unit of the number."""

    seeds: Mapping[int, float] = attrs.field(factory=dict)
    """Seed -> number under this seed, if the number is a mean over seeds; otherwise empty."""
    value: float | None = attrs.field()
    """The number, by default the mean over `seeds`; None if nothing was measured."""
    std: float | None = attrs.field()
    """Sample standard deviation over the seeds, or over the cells or pairs that `count` counts; None for fewer
    than two."""
    interval: tuple[float, float] | None = None
    """Confidence interval of the number; None if it is unknown."""
    change: float | None = None
    """Difference from the number of the same encoder before training; None if there is no such number."""
    count: int | None = None
    """Number of cells, or of pairs of cells, over which the number is a mean; None for other numbers."""
    place: Place | None = None
    """Whether the number is the best or the second best of its column; None if it is neither."""
    rank: int | None = None
    """Rank of the number in its column, from 1; None unless the study asks for ranks."""
    judged: Judged | None = None
    """Test of the number against the baseline's; if the number is a difference, test against 0. None without a
    test."""
    degenerate: str = ""
    """Why the number is degenerate: it says nothing about its encoder. Empty if it is not degenerate."""
    published: tuple[ExpectedRow, ...] = ()
    """Published numbers with which the number is compared; empty if there are none."""

    @value.default
    def _mean_over_seeds(self) -> float | None:
        if not self.seeds:
            return None
        return sum(self.seeds.values()) / len(self.seeds)

    @std.default
    def _deviation_over_seeds(self) -> float | None:
        if self.value is None or len(self.seeds) < 2:
            return None
        squares = math.fsum(
            (number - self.value) ** 2 for number in self.seeds.values()
        )
        return math.sqrt(squares / (len(self.seeds) - 1))

    @property
    def is_finite(self) -> bool:
        """Whether the number is known and finite, so that it can be drawn and sorted."""
        return self.value is not None and math.isfinite(self.value)


@attrs.frozen
class Piece:
    """A text that shows a quantity to readers."""

    text: str
    hint: str = ""
    """Tooltip of the text in a page."""
    kind: str = ""
    """CSS class: `better`, `worse`, `met` or `unmet`."""
    label: str = ""
    """Label in front of the text, in formats that have no heading for the quantity."""

    @property
    def labelled(self) -> str:
        """The text, after its label if it has one."""
        return f"{self.label} {self.text}".lstrip()


Pieces: TypeAlias = Callable[[Estimate, Column], Iterable[Piece]]


def _no_pieces(estimate: Estimate, column: Column) -> Iterable[Piece]:
    return ()


@attrs.frozen
class Quantity:
    """A quantity of an estimate, and how each format of tables shows it."""

    name: str
    """Key in JSON, and by default the name of its CSV column."""
    record: Callable[[Estimate], Any]
    """Function that returns the quantity's value for JSON; it returns None if the value is unknown."""
    cells: Mapping[str, Callable[[Estimate], Any]] = attrs.field()
    """Name of a CSV column -> function that returns the column's value; it returns None if the value is
    unknown."""
    pieces: Pieces = _no_pieces
    """Function that returns the texts that readers see."""
    placing: Literal["beside", "mark", "below"] = "beside"
    """Where these texts stand: beside the number, as a mark behind it, or in a line below it."""
    always: bool = True
    """Whether CSV has the quantity's columns even if no number of the table has it."""

    @cells.default
    def _record_as_cell(self) -> Mapping[str, Callable[[Estimate], Any]]:
        return {self.name: self.record}


def _spread(estimate: Estimate, column: Column) -> Iterator[Piece]:
    if estimate.std is not None and math.isfinite(estimate.std):
        yield Piece(f"± {number(estimate.std, column.digits)}")


def _rank(estimate: Estimate, column: Column) -> Iterator[Piece]:
    if estimate.rank is not None:
        yield Piece(str(estimate.rank).translate(_SUPERSCRIPTS))


def _significance(estimate: Estimate, column: Column) -> Iterator[Piece]:
    judged = estimate.judged
    if judged is None or not judged.significant:
        return
    kind = ""
    if judged.difference is not None and column.ranked:
        kind = "worse" if (judged.difference < 0) != column.lower else "better"
    hint = _comparison_hint(judged, column)
    yield Piece(sign_of(judged.corrected), hint, kind)


def _comparison_hint(judged: Judged, column: Column) -> str:
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


def _degenerate(estimate: Estimate, column: Column) -> Iterator[Piece]:
    if estimate.degenerate:
        hint = f"degenerate: {estimate.degenerate}"
        yield Piece(DEGENERATE, hint, "degenerate")


def _change(estimate: Estimate, column: Column) -> Iterator[Piece]:
    if estimate.change is not None:
        text = signed(estimate.change, column.digits)
        yield Piece(text, "against the same encoder before training")


def _interval(estimate: Estimate, column: Column) -> Iterator[Piece]:
    if estimate.interval is not None:
        text = interval_text(estimate.interval, column.digits)
        yield Piece(text, "confidence interval")


def _count(estimate: Estimate, column: Column) -> Iterator[Piece]:
    if estimate.count is not None:
        hint = "number of cells, or of pairs of cells, in the mean"
        yield Piece(f"of {estimate.count:,}", hint)


def _published(estimate: Estimate, column: Column) -> Iterator[Piece]:
    for row in estimate.published:
        digits = expected_digits(row)
        text = number(row.value, digits)
        if row.difference is not None:
            text += f" ({signed(row.difference, digits)})"
        hint = row.source
        if row.decides:
            hint += f": {expected_verdict(row)}, ±{number(row.tolerance, digits)}"
        elif row.contradicted:
            hint += f": contradicted, since {row.contradicted}"
        yield Piece(text, hint, expected_kind(row), "published")


def _number_of_seeds(estimate: Estimate) -> int:
    return len(estimate.seeds)


def _lower_bound(estimate: Estimate) -> float | None:
    if estimate.interval is None:
        return None
    return estimate.interval[0]


def _upper_bound(estimate: Estimate) -> float | None:
    if estimate.interval is None:
        return None
    return estimate.interval[1]


def _judged_record(estimate: Estimate) -> dict[str, Any] | None:
    judged = estimate.judged
    if judged is None:
        return None
    low, high = judged.interval or (None, None)
    return {
        "difference": judged.difference,
        "low": low,
        "high": high,
        "p_value": judged.p_value,
        "corrected": judged.corrected,
        "basis": judged.basis,
        "reason": judged.reason,
    }


def _published_record(estimate: Estimate) -> list[dict[str, Any]]:
    records = []
    for row in estimate.published:
        records.append(
            {
                "source": row.source,
                "value": row.value,
                "difference": row.difference,
                "met": row.met,
            }
        )
    return records


def _difference(estimate: Estimate) -> float | None:
    if estimate.judged is None:
        return None
    return estimate.judged.difference


def _corrected_p_value(estimate: Estimate) -> float | None:
    if estimate.judged is None:
        return None
    return estimate.judged.corrected


def _first_published(estimate: Estimate) -> float | None:
    if not estimate.published:
        return None
    return estimate.published[0].value


QUANTITIES: list[Quantity] = [
    Quantity("mean", attrgetter("value")),
    Quantity("std", attrgetter("std"), pieces=_spread),
    Quantity("seeds", attrgetter("seeds"), {"seeds": _number_of_seeds}),
    Quantity(
        "rank",
        attrgetter("rank"),
        pieces=_rank,
        placing="mark",
        always=False,
    ),
    Quantity("place", attrgetter("place"), always=False),
    Quantity(
        "against_baseline",
        _judged_record,
        {
            "difference": _difference,
            "corrected p": _corrected_p_value,
        },
        _significance,
        "mark",
    ),
    Quantity(
        "published",
        _published_record,
        {"published": _first_published},
        _published,
        "below",
    ),
    Quantity(
        "degenerate", attrgetter("degenerate"), pieces=_degenerate, placing="mark"
    ),
    Quantity(
        "interval",
        attrgetter("interval"),
        {"low": _lower_bound, "high": _upper_bound},
        _interval,
        "below",
        always=False,
    ),
    Quantity(
        "change",
        attrgetter("change"),
        pieces=_change,
        placing="below",
        always=False,
    ),
    Quantity(
        "count",
        attrgetter("count"),
        pieces=_count,
        placing="below",
        always=False,
    ),
]
"""All quantities of an estimate, in the order in which readers see them."""


def pieces_of(
    estimate: Estimate,
    column: Column,
    placing: str,
) -> list[Piece]:
    """Return the texts of an estimate that stand in one place; see `Quantity.placing`."""
    pieces: list[Piece] = []
    for quantity in QUANTITIES:
        if quantity.placing == placing:
            pieces += quantity.pieces(estimate, column)
    return pieces
