"""What a paper's table or figure says of a study's cells: `[study.expected."TABLE"]`."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from attrs.validators import ge, optional


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
