"""Published numbers in a recipe: of cells (`[study.expected]`) and of other systems (`[study.references]`)."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from attrs.validators import ge, optional


@attrs.frozen
class Published:
    """`[study.expected."TABLE"]`: the numbers of a table or figure of a paper, cell by cell."""

    cells: Mapping[str, Mapping[str, float]]
    """Name of a cell -> key of a score (see `[expected]`) -> number."""
    tolerance: float | None = attrs.field(default=None, validator=optional(ge(0)))
    """Maximum absolute difference from the study's number at which a number counts as reproduced. By default,
    numbers are shown without a verdict."""
    source: str = ""
    """Where the numbers are published, if the name of the table does not say so."""
    hardware: str = ""
    """Hardware on which the numbers were measured."""
    note: str = ""
    """Known differences between the paper, its code and this recipe."""
    contradicted: Mapping[str, str] = attrs.field(factory=dict)
    """Name of a cell -> why the study is expected to miss its numbers: they were measured differently than the
    paper says, or another paper reports different numbers. Such numbers are shown, but count as neither met
    nor missed."""

    def __attrs_post_init__(self) -> None:
        unknown = sorted(self.contradicted.keys() - self.cells.keys())
        if unknown:
            raise ValueError(
                f"`contradicted` has {unknown[0]!r}, of which `cells` has no numbers; name one of `cells`, "
                "or take it out"
            )


@attrs.frozen
class Reference:
    """`[study.references."SYSTEM"]`: a system with which cells are compared, drawn as a dashed line.

    Its numbers are published numbers (`scores`), or the numbers of a cell of the study (`cell`).
    """

    scores: Mapping[str, float] = attrs.field(factory=dict)
    """Key of a score (see `[expected]`), without an encoder -> published number. The numbers are a row of the
    table with these columns, and a line in plots of a column. If the report itself computes an average, a
    published average is compared with it only if `scores` also has a number for each task of the average. This
    shows that both averages are over the same tasks."""
    cell: str = ""
    """Cell of the study whose score is the line; plots over a numeric axis then have no point for this cell."""
    source: str = ""
    """Where the numbers are published."""
