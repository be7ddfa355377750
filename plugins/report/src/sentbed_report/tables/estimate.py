"""`Estimate`: a number of a table with its quantities, such as standard deviation, interval and p-value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, TypeAlias

import attrs
from sentbed.protocols import ExpectedRow

from sentbed_report.statistics.cell_scores import CellScores
from sentbed_report.statistics.difference import Judged

Place: TypeAlias = Literal[1, 2]
"""1 for the best number of a column, 2 for the second best; numbers that are printed equal share a place."""

DEGENERATE = "◇"
"""Mark of a number that says nothing about its encoder."""

MEAN_DECIMALS = 9
"""Number of decimals to which means are rounded before they are compared, since means have rounding errors."""


@attrs.define
class Estimate:
    """A number of a table, with its quantities. Except p-values, they have the unit of the number.

    What compares the numbers of a table, such as a test, adds its result to them.
    """

    seeds: Mapping[int, float] = attrs.field(factory=dict)
    """Seed -> number under this seed, if the number is a mean over seeds; otherwise empty."""
    value: float | None = attrs.field()
    """The number, by default the mean over `seeds`; None if nothing was measured."""
    std: float | None = attrs.field()
    """Sample standard deviation over the seeds; None for fewer than two."""
    interval: tuple[float, float] | None = None
    """Confidence interval of the number; None if it is unknown."""
    place: Place | None = None
    """Whether the number is the best or the second best of its column; None if it is neither."""
    rank: int | None = None
    """Rank of the number in its column, from 1; None unless the study asks for ranks."""
    judged: Judged | None = None
    """Test of the number against the baseline's; if the number is a difference, test against 0. None without a
    test."""
    degenerate: str = ""
    """Why the number is degenerate: it says nothing about its encoder. Empty if it is not degenerate."""
    published: tuple[ExpectedRow, ...] = ()
    """Published numbers with which the number is compared; empty if there are none."""
    scores: CellScores | None = attrs.field(default=None, eq=False, repr=False)
    """Scores of which the number is the mean, with their items; None for other numbers."""

    @classmethod
    def of_scores(cls, scores: CellScores) -> Estimate:
        """Return the mean of scores over their seeds."""
        return cls(scores.by_seed, degenerate=scores.degenerate, scores=scores)

    @value.default
    def _mean_over_seeds(self) -> float | None:
        if not self.seeds:
            return None
        return sum(self.seeds.values()) / len(self.seeds)

    @std.default
    def _deviation_over_seeds(self) -> float | None:
        if self.value is None or len(self.seeds) < 2:
            return None
        squares = math.fsum(
            (number - self.value) ** 2 for number in self.seeds.values()
        )
        return math.sqrt(squares / (len(self.seeds) - 1))

    @property
    def is_finite(self) -> bool:
        """Whether the number is known and finite, so that it can be drawn and sorted."""
        return self.value is not None and math.isfinite(self.value)
