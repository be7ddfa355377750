"""`[study.expected."TABLE"]`: numbers from a paper's table or figure for a study's cells."""

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
