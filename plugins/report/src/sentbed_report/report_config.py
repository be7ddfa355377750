"""Configuration of reports: the table `[report]` of a recipe."""

from __future__ import annotations

from typing import ClassVar

import attrs
from sentbed.protocols import RecipeTable, TableTraits


@attrs.frozen
class ReportTable(RecipeTable):
    """`[report]`: what the page of a run shows."""

    traits: ClassVar[TableTraits] = TableTraits(decides=False)

    scatters: bool = True
    """Scatter plots of gold scores against similarities; they may take longer to draw than an evaluation."""
