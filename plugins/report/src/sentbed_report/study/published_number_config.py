"""Published numbers in a recipe: of cells (`[study.expected]`) and of others (`[study.references]`)."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from attrs.validators import ge, optional


@attrs.frozen
class Published:
    """`[study.expected."TABLE"]`: what a table or a figure of a paper says, cell by cell."""

    cells: Mapping[str, Mapping[str, float]]
    """Name of a cell -> key of a score, as in `[expected]` -> number."""
    tolerance: float | None = attrs.field(default=None, validator=optional(ge(0)))
    """Largest absolute difference that counts as reproduced; by default numbers are only shown."""
    source: str = ""
    """Where the numbers are published, if the name of the table does not say it."""
    hardware: str = ""
    """Hardware on which the numbers were measured."""
    hours: float | None = attrs.field(default=None, validator=optional(ge(0)))
    """Approximate duration of one cell on that hardware in hours."""
    note: str = ""
    """Known differences between the paper, its code and this recipe."""
    contradicted: Mapping[str, str] = attrs.field(factory=dict)
    """Name of a cell -> why it is not to meet its numbers: they were measured otherwise than printed, or
    another paper has others of the same. They are shown, and count neither as met nor as missed."""

    def __attrs_post_init__(self) -> None:
        unknown = sorted(self.contradicted.keys() - self.cells.keys())
        if unknown:
            raise ValueError(
                f"`contradicted` has {unknown[0]!r}, of which `cells` has no numbers; name one of `cells`, "
                "or take it out"
            )


@attrs.frozen
class Reference:
    """`[study.references."SYSTEM"]`: a system that cells are compared with, drawn as a dashed line.

    Its numbers are published ones (`scores`), or those of a cell of the study (`cell`).
    """

    scores: Mapping[str, float] = attrs.field(factory=dict)
    """Key of a score, as in `[expected]`, without an encoder -> published number. They are a row of the table
    whose columns they name, and a line where that column is drawn. An average that the report computes needs
    a number of each of its tasks besides, so that it is known to be over the same."""
    cell: str = ""
    """Cell of the study: its own score is the line, and it is no point of the plots over numbers."""
    source: str = ""
    """Where the numbers are published."""
