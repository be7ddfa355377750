"""`[study]`: which cells a recipe stands for, and what was published of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from attrs.validators import deep_iterable, ge, le, min_len, optional


@attrs.frozen
class Published:
    """`[study.expected."TABLE"]`: what a table or a figure of a paper says, cell by cell."""

    cells: Mapping[str, Mapping[str, float]]
    """Name of a cell -> key of a score, as in `[expected]` -> the number."""
    tolerance: float | None = attrs.field(default=None, validator=optional(ge(0)))
    """Largest absolute difference that still counts as reproduced; where left out, numbers are shown only."""
    source: str = ""
    """Where the numbers are published, if the name of the table does not say it."""
    hardware: str = ""
    """What they were measured on."""
    hours: float | None = attrs.field(default=None, validator=optional(ge(0)))
    """How long one cell takes on that hardware, about."""
    note: str = ""
    """What is known of differences between the paper, its code and this recipe."""


@attrs.frozen
class StudyTable:
    """`[study]`: axes over any values of the recipe; every combination of their labels is a cell."""

    axes: Mapping[str, Mapping[str, Any]] = attrs.field(validator=min_len(1))
    """Name of an axis -> `path` and `values`, or label -> the values that it sets, by path:
    `[study.axes.pooler]` with `path = "encoder.pooler.use"`, `values = ["first", "mean"]`, or
    `[study.axes.loss]` with `ctr = { "stage.0.loss" = { use = "info-nce" } }`. A path is that of `--set`."""
    seeds: tuple[int, ...] = attrs.field(
        default=(), validator=deep_iterable(member_validator=[ge(0), le(2**32 - 1)])
    )
    """Every cell is run with each of them as `run.seed`; with the recipe's own where left out."""
    baseline: Mapping[str, str] | None = None
    """Axis -> label of the cell that all others are compared with; an axis of one label may be left out."""
    zip: tuple[tuple[str, ...], ...] = ()
    """Groups of axes that go together, label by label, in the place of all combinations."""
    exclude: tuple[Mapping[str, str | tuple[str, ...]], ...] = ()
    """Axis -> label, or several: cells that agree with an entry in all axes that it names are left out."""
    include: tuple[Mapping[str, str | tuple[str, ...]], ...] = ()
    """As `exclude`: cells that are kept although `exclude` names them."""
    expected: Mapping[str, Published] = attrs.field(factory=dict)
    """Name of a table or figure -> what it says."""
    order: tuple[str, ...] = ()
    """Tasks in the order in which their columns are to stand; evaluators' own where left out."""
