"""The data of a run that hooks receive: the run itself, and the content of its report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import attrs

from sentbed.protocols.evaluation import Score
from sentbed.protocols.recipe import Recipe

RunStatus: TypeAlias = Literal["finished", "interrupted", "failed"]
"""How a run ended."""

START = "@start"
"""Suffix of an encoder's name in scores that were computed before training."""

_ROUNDING = 1e-9
"""Tolerance for rounding errors: 82.13 - 82.03 is a little more than 0.1 in binary."""


@attrs.frozen(eq=False)
class Run:
    """Read-only information about a run, for lifecycle hooks."""

    name: str
    directory: Path
    recipe: Recipe
    facts: Mapping[str, Any]
    """Content of the manifest so far: versions, machine, data, engine, counters."""


@attrs.frozen
class ExpectedRow:
    """A number that the recipe expects, and the number that the run measured."""

    key: str
    """Key in the table `[expected]` of the recipe."""
    value: float
    """The expected number."""
    tolerance: float | None
    """Largest difference, in the unit of `value`, with which the number counts as reproduced.

    None if the number is only shown.
    """
    source: str
    """Publication that has the expected number."""
    found: float | None
    """The measured number; None if the run did not measure it, or several scores match the key."""
    fits: int = 1
    """Number of scores that match the key."""
    contradicted: str = ""
    """Why the two numbers need not agree, such as that another publication contradicts the expected number.

    There is then no `tolerance`. Otherwise it is empty.
    """

    @property
    def decides(self) -> bool:
        """Whether the number must be reproduced; otherwise it is only shown."""
        return self.tolerance is not None

    @property
    def difference(self) -> float | None:
        """Measured number minus expected number; None if nothing was measured."""
        if self.found is None:
            return None
        return self.found - self.value

    @property
    def met(self) -> bool | None:
        """Whether the difference is within the tolerance; None without a measured number or a tolerance."""
        if self.difference is None or self.tolerance is None:
            return None
        return abs(self.difference) <= self.tolerance + _ROUNDING


@attrs.frozen(eq=False)
class Watched:
    """Results of one `watch` of a stage for one encoder.

    `steps`, `primary` and `values` have one entry per evaluation.
    """

    encoder: str
    evaluator: str
    scores: tuple[Score, ...]
    """Scores of the first evaluation. They have the task, metric and protocol of each value."""
    steps: list[int] = attrs.field(factory=list)
    """Number of optimiser steps before each evaluation."""
    primary: list[float] = attrs.field(factory=list)
    """`Evaluation.primary` of each evaluation; higher is better."""
    values: list[list[float]] = attrs.field(factory=list)
    """Values of the scores of each evaluation, in the order of `scores`."""


@attrs.frozen(eq=False)
class StageCurve:
    """What was logged during one stage. `steps`, `losses` and `learning_rates` have one entry per logged step."""

    name: str
    steps: list[int] = attrs.field(factory=list)
    losses: list[float] = attrs.field(factory=list)
    learning_rates: list[float] = attrs.field(factory=list)
    validations: list[tuple[int, float]] = attrs.field(factory=list)
    """Step and value of each validation; higher is better."""
    best_step: int | None = None
    """Step whose weights were kept, with or without a validation; None if the stage had no validation.

    Until the stage has finished, it is the step of the best validation.
    """
    metric: str = "validation"
    """Label of the axis for `validations`."""
    metrics: dict[str, list[float]] = attrs.field(factory=dict)
    """Metrics of the loss by name, with one entry per logged step; NaN if the step does not have the metric."""
    watched: list[Watched] = attrs.field(factory=list)


@attrs.frozen
class ReportSection:
    """A table that a plugin adds to the report of a run."""

    key: str
    """Key in `sections` of `report.json`, of letters, digits and `-`.

    It is unique among plugins.
    """
    title: str
    columns: tuple[str, ...]
    """Headings of the columns."""
    rows: tuple[tuple[str | int | float | None, ...], ...]
    """Rows with one value per column."""
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
    """The resolved recipe, with every default value."""
    manifest: Mapping[str, Any]
    scores: tuple[Score, ...] = ()
    """All scores. `Score.encoder` is `NAME@start` for a score before training, and `NAME` after training."""
    expected: tuple[ExpectedRow, ...] = ()
    stages: tuple[StageCurve, ...] = ()
    warnings: tuple[str, ...] = ()
    """Warnings of the run."""
    sections: tuple[ReportSection, ...] = ()
    """Tables of plugins."""
