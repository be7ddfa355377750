"""`Estimate`: a number of a table with its quantities, such as standard deviation, interval and p-value.

Each quantity is listed once in `QUANTITIES`, with its names in JSON and CSV and the text that readers see.
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
from sentbed_report.statistics.equivalence import Equivalence
from sentbed_report.statistics.significance import Judged
from sentbed_report.tables.column import Column

Place: TypeAlias = Literal[1, 2]
"""Best (1) or second best (2) number of its column, as printed; equal numbers share a place."""

DEGENERATE = "◇"
"""Mark of a number that says nothing about its encoder."""

MEAN_DECIMALS = 9
"""Number of decimals to which means are compared, since means over seeds have rounding errors."""

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@attrs.frozen
class Estimate:
    """A number of a table. All values except p-values and counts have the unit of the number."""

    seeds: Mapping[int, float] = attrs.field(factory=dict)
    """Seed -> number, if the number is a mean over seeds."""
    value: float | None = attrs.field()
    """The number, by default the mean over `seeds`; None if nothing was measured."""
    std: float | None = attrs.field()
    """Sample standard deviation over the seeds, or over what `count` counts; None for fewer than two."""
    interval: tuple[float, float] | None = None
    """Confidence interval of the number."""
    change: float | None = None
    """Difference from the same encoder before training."""
    count: int | None = None
    """Number of cells, or of pairs of cells, over which it is a mean."""
    place: Place | None = None
    """Whether it is the best or second best number of its column."""
    rank: int | None = None
    """Rank in its column, from 1, if the study asks for ranks."""
    judged: Judged | None = None
    """Comparison with the baseline, or, if the number is a difference, with 0."""
    equivalence: Equivalence | None = None
    """Tests of whether it is as good as the baseline, up to the study's margin."""
    degenerate: str = ""
    """Why the number says nothing about its encoder; empty if it is not degenerate."""
    published: tuple[ExpectedRow, ...] = ()
    """Published numbers to compare it with."""

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
        """Whether there is a finite number, which can be drawn and sorted."""
        return self.value is not None and math.isfinite(self.value)


@attrs.frozen
class Piece:
    """Text by which readers see a quantity."""

    text: str
    hint: str = ""
    """Tooltip of the text in a page."""
    kind: str = ""
    """CSS class: `better`, `worse`, `met` or `unmet`."""
    label: str = ""
    """Label in front of the text, for formats without a heading for it."""

    @property
    def labelled(self) -> str:
        """The text with its label."""
        return f"{self.label} {self.text}".lstrip()


Pieces: TypeAlias = Callable[[Estimate, Column], Iterable[Piece]]


def _no_pieces(estimate: Estimate, column: Column) -> Iterable[Piece]:
    return ()


@attrs.frozen
class Quantity:
    """A quantity of an estimate, with its form in each format of tables."""

    name: str
    """Key in JSON, and by default the name of its CSV column."""
    record: Callable[[Estimate], Any]
    """Function that returns its value in JSON; None if the value is unknown."""
    cells: Mapping[str, Callable[[Estimate], Any]] = attrs.field()
    """CSV column -> function that returns its value; None if the value is unknown."""
    pieces: Pieces = _no_pieces
    """Function that returns the texts that readers see."""
    placing: Literal["beside", "mark", "below"] = "beside"
    """Place of these texts: after the number, as a mark behind it, or in a separate line."""
    always: bool = True
    """Whether CSV has its columns even if no number has the quantity."""

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
        hint = "cells, or pairs of cells, that it is the mean of"
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
    return None if estimate.interval is None else estimate.interval[0]


def _upper_bound(estimate: Estimate) -> float | None:
    return None if estimate.interval is None else estimate.interval[1]


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
        "degrees": judged.degrees,
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
    return None if estimate.judged is None else estimate.judged.difference


def _corrected(estimate: Estimate) -> float | None:
    return None if estimate.judged is None else estimate.judged.corrected


def _corrected_no_worse(estimate: Estimate) -> float | None:
    test = estimate.equivalence
    return None if test is None else test.corrected_no_worse


def _corrected_equivalent(estimate: Estimate) -> float | None:
    test = estimate.equivalence
    return None if test is None else test.corrected_equivalent


def _equivalence_record(estimate: Estimate) -> dict[str, Any] | None:
    return None if estimate.equivalence is None else attrs.asdict(estimate.equivalence)


def _first_published(estimate: Estimate) -> float | None:
    return estimate.published[0].value if estimate.published else None


QUANTITIES: list[Quantity] = [
    Quantity("mean", attrgetter("value")),
    Quantity("std", attrgetter("std"), pieces=_spread),
    Quantity("seeds", attrgetter("seeds"), {"seeds": _number_of_seeds}),
    Quantity("rank", attrgetter("rank"), pieces=_rank, placing="mark", always=False),
    Quantity("place", attrgetter("place"), always=False),
    Quantity(
        "against_baseline",
        _judged_record,
        {"difference": _difference, "corrected p": _corrected},
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
    Quantity(
        "equivalence",
        _equivalence_record,
        {"no worse p": _corrected_no_worse, "equivalent p": _corrected_equivalent},
        always=False,
    ),
]
"""All quantities of an estimate, in the order in which readers see them."""


def pieces_of(estimate: Estimate, column: Column, placing: str) -> list[Piece]:
    """Return the texts of an estimate for one place: `beside` its number, `mark` behind it, or `below`."""
    pieces: list[Piece] = []
    for quantity in QUANTITIES:
        if quantity.placing == placing:
            pieces += quantity.pieces(estimate, column)
    return pieces
