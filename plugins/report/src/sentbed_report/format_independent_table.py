"""A table before it has a format: text and marks of its cells, the same in Markdown, LaTeX and HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, Protocol, TypeAlias

import attrs

Place: TypeAlias = Literal[0, 1]
"""Best (0) or second best (1) of its column, as printed; equal values share a place."""

DEGENERATE = "◇"
"""Mark of a number that says nothing about its encoder."""

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

SIGNS = ((0.01, "‡"), (0.05, "†"))
"""P-value below which a difference has the sign, smallest first."""


@attrs.frozen
class PrintedCell:
    """One number of a table."""

    text: str
    """The number; what it is in words where there is none, or it is not finite."""
    place: Place | None = None
    spread: str = ""
    """Standard deviation; empty if there is none, or it is not finite."""
    sign: str = ""
    """† or ‡ for a significant difference from the baseline."""
    degenerate: str = ""
    """Why it says nothing about its encoder; empty if it does."""
    rank: int | None = None
    """Rank in its column, from 1; None where none is printed."""

    @property
    def signs(self) -> str:
        """All signs behind the number, the rank as a superscript first."""
        rank = "" if self.rank is None else str(self.rank).translate(_SUPERSCRIPTS)
        return rank + self.sign + (DEGENERATE if self.degenerate else "")


@attrs.frozen
class PrintedRow:
    """Row of a table."""

    name: str
    cells: Sequence[PrintedCell]
    remarks: tuple[str, ...] = ()
    """Remarks behind the name, such as `baseline`."""
    below: tuple[str, ...] = ()
    """Published numbers, one a column, empty where there is none; no row below where none is published."""

    @property
    def title(self) -> str:
        """Name with its remarks."""
        return f"{self.name} ({'; '.join(self.remarks)})" if self.remarks else self.name


@attrs.frozen
class PrintedTable:
    """Table with everything that is said about it, except for its legend, which is the format's."""

    title: str
    """Title of the whole, such as the study's name; empty if it has none."""
    corner: str
    """What a row is: `cell` or `encoder`."""
    headings: tuple[str, ...]
    rows: tuple[PrintedRow, ...]
    note: str
    """Evaluator, metrics and protocols."""
    remarks: tuple[str, ...] = ()
    """Sentences on the numbers."""
    baseline: str = ""
    """Name of the row that others are compared with."""
    finished: bool = True
    """Whether all rows have finished; otherwise the best is that of those that have."""
    ranks: tuple[str, ...] | None = None
    """Axes within whose labels numbers are ranked, `()` for all rows; None for no ranks."""


class Printable(Protocol):
    """Table that can be printed in every format."""

    @property
    def printed(self) -> PrintedTable:
        """Its printed form."""


def sign_of(p_value: float | None) -> str:
    """Return † for a p-value below 0.05, ‡ for one below 0.01, else nothing."""
    return next((sign for most, sign in SIGNS if p_value is not None and p_value < most), "")


def legend(table: PrintedTable, best: str, second: str = "") -> Iterator[str]:
    """Yield what the marks of a table say; `best` and `second` are what a format has for these two places."""
    cells = [cell for row in table.rows for cell in row.cells]
    places = {cell.place for cell in cells}
    if 0 in places:
        also = f"; {second}: the second best" if second and 1 in places else ""
        yield f"{best}: the best of a column{also}{'' if table.finished else ', of what has finished'}."
    if any(cell.rank is not None for cell in cells):
        among = f", among rows of the same {' and '.join(table.ranks)}" if table.ranks else ""
        yield f"Superscripts: the rank in a column{among}; equal numbers have the same."
    if any(cell.sign for cell in cells):
        levels = ", ".join(f"{sign} p < {most}" for most, sign in reversed(SIGNS))
        yield f"{levels}, against {table.baseline}."
    yield from degenerate_legend(
        (row.name, heading, cell.degenerate)
        for row in table.rows
        for heading, cell in zip(table.headings, row.cells, strict=True)
    )


def degenerate_legend(cells: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """Yield a sentence per reason why numbers are degenerate; `cells` are (row, column, reason or "")."""
    reasons: dict[str, dict[str, list[str]]] = {}
    for row, heading, reason in cells:
        if reason:
            reasons.setdefault(reason, {}).setdefault(row, []).append(heading)
    for why, rows in reasons.items():
        listed = "; ".join(f"{name}: {', '.join(headings)}" for name, headings in rows.items())
        yield f"{DEGENERATE} degenerate, neither ranked nor tested ({listed}): {why}."
