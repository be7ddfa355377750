"""A run as hooks see it, and the data of its report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import attrs

from sentbed.protocols.evaluation import Scatter, Score
from sentbed.protocols.recipe_parts import RecipeParts

RunStatus: TypeAlias = Literal["finished", "interrupted", "failed"]
"""How a run ended."""

START = "@start"
"""Suffix of an encoder's name in scores from before training."""

_ROUNDING = 1e-9
"""Slack for the subtraction of two decimals: 82.03 and 82.13 are 0.1 apart, in binary a little more."""


@attrs.frozen(eq=False)
class Run:
    """Read-only information about the run for lifecycle hooks."""

    name: str
    directory: Path
    recipe: RecipeParts
    facts: Mapping[str, Any]
    """Content of the manifest so far: versions, machine, data, engine, counters."""


@attrs.frozen
class ExpectedRow:
    """Number that the recipe expects, and the number that the run measured."""

    key: str
    """Key in the recipe's `[expected]` table."""
    value: float
    tolerance: float | None
    """Largest difference, in the unit of `value`, that counts as met; None if it is only shown."""
    source: str
    """Publication of the number."""
    found: float | None
    """Measured number; None if the run did not measure it, or several scores match the key."""
    fits: int = 1
    """Number of scores that match the key."""
    contradicted: str = ""
    """Why the measured number is not expected to agree, such as that another publication contradicts this one;
    there is then no `tolerance`. Otherwise empty."""

    @property
    def decides(self) -> bool:
        """Whether the number must be reproduced, instead of only being shown."""
        return self.tolerance is not None

    @property
    def difference(self) -> float | None:
        """Measured minus expected; None if nothing was measured."""
        return None if self.found is None else self.found - self.value

    @property
    def met(self) -> bool | None:
        """Whether both numbers agree within tolerance; None without measurement or tolerance."""
        if self.difference is None or self.tolerance is None:
            return None
        return abs(self.difference) <= self.tolerance + _ROUNDING


@attrs.frozen(eq=False)
class Watched:
    """Results of one `watch` of a stage for one encoder; the lists have one entry per evaluation."""

    encoder: str
    evaluator: str
    scores: tuple[Score, ...]
    """Scores of the first evaluation, for task, metric and protocol of each value."""
    steps: list[int] = attrs.field(factory=list)
    """Number of optimiser steps before each evaluation."""
    primary: list[float] = attrs.field(factory=list)
    """Primary scores; higher is better."""
    values: list[list[float]] = attrs.field(factory=list)
    """Values of each evaluation, in the order of `scores`."""


@attrs.frozen(eq=False)
class StageCurve:
    """Log of one stage. `steps`, `losses` and `learning_rates` have one entry per logged step."""

    name: str
    steps: list[int] = attrs.field(factory=list)
    losses: list[float] = attrs.field(factory=list)
    learning_rates: list[float] = attrs.field(factory=list)
    validations: list[tuple[int, float]] = attrs.field(factory=list)
    """(step, value) in order of steps; higher is better."""
    best_step: int | None = None
    """Step of the validation whose weights were kept."""
    metric: str = "validation"
    """Axis label for `validations`."""
    metrics: dict[str, list[float]] = attrs.field(factory=dict)
    """Metrics of the loss by name, one entry per logged step; NaN for steps without the metric."""
    watched: list[Watched] = attrs.field(factory=list)


@attrs.frozen
class ReportSection:
    """Table that a plugin adds to a run's report."""

    key: str
    """Key in `sections` of `report.json`: letters, digits and `-`. If two sections have the same key, the second
    is left out, with a warning."""
    title: str
    columns: tuple[str, ...]
    rows: tuple[
        tuple[str | int | float | tuple[tuple[str, float], ...] | None, ...], ...
    ]
    """Rows, with one value per column; a tuple of labels with shares in [0, 1] is drawn as bars."""
    note: str = ""
    """Sentence below the table."""


@attrs.frozen(eq=False)
class ReportData:
    """Content of a run's report."""

    name: str
    status: RunStatus
    error: str | None
    """Why the run did not finish; None if it did."""
    started: str
    """Start time, ISO 8601."""
    seconds: float
    """Duration of the run in seconds."""
    recipe_toml: str
    """Resolved recipe."""
    manifest: Mapping[str, Any]
    scores: tuple[Score, ...] = ()
    """Scores; `Score.encoder` is `NAME@start` before training and `NAME` after it."""
    expected: tuple[ExpectedRow, ...] = ()
    stages: tuple[StageCurve, ...] = ()
    scatters: tuple[tuple[str, Scatter], ...] = ()
    """(encoder, points) pairs, with encoders named as in `scores`."""
    warnings: tuple[str, ...] = ()
    """Warnings of the run."""
    sections: tuple[ReportSection, ...] = ()
    """Tables from plugins."""
