"""Configuration of reports: the table `[report]` of a recipe."""

from __future__ import annotations

from typing import ClassVar

import attrs
from sentbed.protocols import RecipeTable, TableTraits


@attrs.frozen
class ReportTable(RecipeTable):
    """`[report]`: settings of a run's page."""

    traits: ClassVar[TableTraits] = TableTraits(decides=False)

    scatters: bool = True
    """Whether to draw plots of gold scores against similarities; drawing may take longer than an evaluation."""
