"""Configuration of reports: the tables `[bootstrap]` and `[report]` of a recipe."""

from __future__ import annotations

from typing import ClassVar

import attrs
from attrs.validators import and_, ge, gt, lt
from sentbed.protocols import RecipeTable, TableTraits


@attrs.frozen
class Bootstrap(RecipeTable):
    """`[bootstrap]`: confidence intervals and paired comparisons of encoders; off if absent."""

    traits: ClassVar[TableTraits] = TableTraits(decides=False)

    resamples: int = attrs.field(default=1000, validator=ge(100))
    """How often the items behind each score are drawn anew."""
    confidence: float = attrs.field(default=0.95, validator=and_(gt(0), lt(1)))
    """Of an interval; above 0, below 1."""


@attrs.frozen
class ReportTable(RecipeTable):
    """`[report]`: what the page of a run shows."""

    traits: ClassVar[TableTraits] = TableTraits(decides=False)

    scatters: bool = True
    """Scatter plots of gold scores against similarities; they may take longer to draw than an evaluation."""
