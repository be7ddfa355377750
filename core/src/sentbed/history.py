"""What a run has shown so far, gathered through the lifecycle hooks that any tracker uses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import attrs

from sentbed.hookspecs import hookimpl
from sentbed.protocols import Evaluation, Scatter, Score, StepResult
from sentbed.recipe import Recipe
from sentbed.report.model import START, ExpectedRow, ReportData, StageCurve, Status

if TYPE_CHECKING:
    from sentbed.runner import RunInfo


@attrs.define(eq=False)
class _Stage:
    name: str
    metric: str
    steps: list[int] = attrs.field(factory=list)
    losses: list[float] = attrs.field(factory=list)
    rates: list[float] = attrs.field(factory=list)
    validations: list[tuple[int, float]] = attrs.field(factory=list)
    best_step: int | None = None


def _keys(score: Score) -> set[str]:
    """Return the keys of `[expected]` that name this score."""
    metric = f"{score.task}/{score.metric}"
    keys = {score.task, metric, f"{metric}@{score.protocol.get('id')}"}
    return keys | {f"{score.encoder}/{key}" for key in keys}


class History:
    """Scores, curves and scatters of one run."""

    def __init__(self) -> None:
        self._started = datetime.now(UTC)
        self._clock = time.monotonic()
        self._scores: list[Score] = []
        self._scatters: list[tuple[str, Scatter]] = []
        self._stages: list[_Stage] = []

    @hookimpl
    def scores_ready(self, encoder: str, evaluation: Evaluation) -> None:
        """Keep the scores and the points."""
        self._scores += evaluation.scores
        self._scatters += [(encoder, scatter) for scatter in evaluation.scatters]

    @hookimpl
    def stage_started(self, run: RunInfo, stage: str) -> None:
        """Open the curves of a stage."""
        validate = next(s.validate for s in run.recipe.stage if s.name == stage)
        self._stages.append(_Stage(stage, validate.with_.name if validate else "validation"))

    @hookimpl
    def step_finished(self, step: int, result: StepResult) -> None:
        """Extend the curves."""
        stage = self._stages[-1]
        stage.steps.append(step)
        stage.losses.append(result.loss)
        stage.rates.append(result.learning_rate)

    @hookimpl
    def validated(self, step: int, score: float, best: bool) -> None:
        """Keep the validation score."""
        stage = self._stages[-1]
        stage.validations.append((step, score))
        if best:
            stage.best_step = step

    @property
    def scores(self) -> tuple[Score, ...]:
        """Every score, in the order in which they were obtained."""
        return tuple(self._scores)

    def expected(self, recipe: Recipe) -> Iterator[ExpectedRow]:
        """Yield every expected number beside the one found after training."""
        final = [score for score in self._scores if not score.encoder.endswith(START)]
        for key, expected in recipe.expected.items():
            named = [score for score in final if key in _keys(score)]
            # Without a metric, the task's first one is meant.
            bare = [s for s in named if key in (s.task, f"{s.encoder}/{s.task}")]
            fitting = [s for s in bare if s.metric == bare[0].metric] or named
            # Two that fit are no answer: the key must say which is meant.
            found = fitting[0].value if len(fitting) == 1 else None
            yield ExpectedRow(key, expected.value, expected.tolerance, expected.source, found)

    def report_data(
        self, run: RunInfo, status: Status, error: BaseException | None, recipe_toml: str
    ) -> ReportData:
        """Return everything that the report shows."""
        return ReportData(
            name=run.name,
            status=status,
            error=None if error is None else str(error) or type(error).__name__,
            started=self._started.isoformat(timespec="seconds"),
            seconds=time.monotonic() - self._clock,
            recipe_toml=recipe_toml,
            manifest=run.facts,
            scores=self.scores,
            expected=tuple(self.expected(run.recipe)),
            stages=tuple(
                StageCurve(s.name, s.steps, s.losses, s.rates, tuple(s.validations), s.best_step, s.metric)
                for s in self._stages
            ),
            scatters=tuple(self._scatters),
        )
