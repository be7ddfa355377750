"""The recipe table `[cost]`."""

from __future__ import annotations

from typing import ClassVar

import attrs
from attrs.validators import gt
from sentbed.protocols import RecipeTable, TableTraits


@attrs.frozen
class Cost(RecipeTable):
    """`[cost]`: the price of the machine that runs the recipe."""

    traits: ClassVar[TableTraits] = TableTraits(decides=False)

    per_hour: float = attrs.field(validator=gt(0))
    """Price of an hour, in `currency`."""
    currency: str = "EUR"
    """Currency of the price."""

    def of(self, seconds: float) -> float:
        """Return the price of `seconds`."""
        return self.per_hour * seconds / 3600
