"""What the report of a run is written from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import attrs

from sentbed.protocols.evaluation import Scatter, Score

RunStatus: TypeAlias = Literal["finished", "interrupted", "failed"]
"""How a run ended."""

START = "@start"
"""What an encoder's name ends in, in scores from before training."""

_ROUNDING = 1e-9
"""Slack for the subtraction of two decimals: 82.03 and 82.13 are 0.1 apart, in binary a little more."""


@attrs.frozen
class ExpectedRow:
    """A number that the recipe expects, beside the one that the run found."""

    key: str
    """The dotted key of the recipe's `[expected]` table."""
    value: float
    tolerance: float | None
    """The largest difference, in the unit of `value`, that still counts as met; None: it decides nothing."""
    source: str
    """Where the number was published."""
    found: float | None
    """None where the run did not get as far as measuring it, or where several scores fit the key."""
    fits: int = 1
    """How many scores fit the key."""

    @property
    def verdict(self) -> str:
        """Whether the number was met, in words."""
        if self.met is not None:
            return "met" if self.met else "not met"
        if self.found is not None:
            return "to compare"
        return (
            "not measured" if self.fits < 2 else f"fits {self.fits} scores: say which (TASK/METRIC@PROTOCOL)"
        )

    @property
    def decides(self) -> bool:
        """Whether it is a number to reproduce, and not only one to compare with."""
        return self.tolerance is not None

    @property
    def difference(self) -> float | None:
        """Found minus expected; None where nothing was found."""
        return None if self.found is None else self.found - self.value

    @property
    def digits(self) -> int:
        """Decimals to print: as many as the recipe states, at least two, at most six."""
        stated = (Decimal(repr(float(n))).normalize() for n in (self.value, self.tolerance) if n is not None)
        decimals = [-int(number.as_tuple().exponent) for number in stated if number.is_finite()]
        return min(6, max([2, *decimals]))

    @property
    def met(self) -> bool | None:
        """Whether found and expected agree within the tolerance; None where nothing was found, or decides."""
        if self.difference is None or self.tolerance is None:
            return None
        return abs(self.difference) <= self.tolerance + _ROUNDING


@attrs.frozen(eq=False)
class Watched:
    """What one `watch` of a stage saw of one encoder. The lists have one entry a look."""

    encoder: str
    evaluator: str
    scores: tuple[Score, ...]
    """Task, metric and protocol of each value of a look; their numbers are those of the first look."""
    steps: list[int] = attrs.field(factory=list)
    """Optimiser steps before the look."""
    primary: list[float] = attrs.field(factory=list)
    """Higher is better."""
    values: list[list[float]] = attrs.field(factory=list)
    """In the order of `scores`."""


@attrs.frozen(eq=False)
class StageCurve:
    """What one stage logged. `steps`, `losses` and `learning_rates` have one entry a logged step."""

    name: str
    steps: Sequence[int]
    losses: Sequence[float]
    learning_rates: Sequence[float]
    validations: Sequence[tuple[int, float]] = ()
    """(step, value), in the order of the steps; higher is better."""
    best_step: int | None = None
    """The step of the validation whose weights were kept."""
    metric: str = "validation"
    """What `validations` measures, as an axis label."""
    metrics: Mapping[str, Sequence[float]] = attrs.field(factory=dict)
    """The loss's own metrics by name, one entry a logged step; NaN where a step had none."""
    watched: Sequence[Watched] = ()


@attrs.frozen
class ReportSection:
    """A table of a plugin's own in the report of a run."""

    key: str
    """Under which `report.json` has it, in `sections`: letters, digits and `-`."""
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | float | None, ...], ...]
    """One value a column."""
    note: str = ""
    """A sentence below the table."""


@attrs.frozen(eq=False)
class ReportData:
    """Everything that a report shows."""

    name: str
    status: RunStatus
    error: str | None
    """Why the run did not finish; None where it did."""
    started: str
    """ISO 8601."""
    seconds: float
    """How long the run took."""
    recipe_toml: str
    """The resolved recipe."""
    manifest: Mapping[str, Any]
    scores: tuple[Score, ...] = ()
    """`Score.encoder` is `NAME@start` before training and `NAME` after it."""
    expected: tuple[ExpectedRow, ...] = ()
    stages: tuple[StageCurve, ...] = ()
    scatters: tuple[tuple[str, Scatter], ...] = ()
    """(encoder, points), with encoders named as in `scores`."""
    warnings: tuple[str, ...] = ()
    """What the run went on in spite of."""
    sections: tuple[ReportSection, ...] = ()
    """What plugins have to say of the run."""
