"""The history of a run: its scores, training curves and warnings, from which the report is written.

It is collected through the same lifecycle hooks that trackers implement.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import attrs

from sentbed._json import plain
from sentbed._run.expected_numbers import expected_rows
from sentbed.hookspecs import hookimpl
from sentbed.protocols import (
    Evaluation,
    ReportData,
    Run,
    RunStatus,
    Score,
    StageCurve,
    StepResult,
    Watched,
)


@attrs.define(eq=False)
class History:
    """The scores, training curves and warnings of a run. A training state has them, too."""

    started: datetime = attrs.field(factory=lambda: datetime.now(UTC))
    seconds: float = 0.0
    """Duration of the run before this process began to work on it."""
    scores: list[Score] = attrs.field(factory=list)
    """All scores, in the order in which they were computed."""
    stages: list[StageCurve] = attrs.field(factory=list)
    warnings: list[str] = attrs.field(factory=list)
    _clock: float = attrs.field(factory=time.monotonic, init=False)
    """Time at which this process began to work on the run."""

    def total_seconds(self) -> float:
        """Return the duration of the run. The time in which no process worked on it does not count."""
        return self.seconds + time.monotonic() - self._clock

    @hookimpl
    def warned(self, message: str) -> None:
        """Record the warning."""
        self.warnings.append(message)

    @hookimpl
    def scores_ready(self, evaluation: Evaluation) -> None:
        """Record the scores of an evaluation."""
        self.scores += evaluation.scores

    @hookimpl
    def stage_started(self, run: Run, stage: str) -> None:
        """Start the curves of a stage, or go on with the curves of a resumed stage."""
        if self.stages and self.stages[-1].name == stage:
            return
        metric = "validation"
        for recipe_stage in run.recipe.stage:
            validate = recipe_stage.validate
            if recipe_stage.name == stage and validate is not None:
                metric = validate.evaluator.name
        self.stages.append(StageCurve(stage, metric=metric))

    @hookimpl
    def step_finished(self, step: int, result: StepResult) -> None:
        """Add a step to the curves of the current stage."""
        stage = self.stages[-1]
        # A step without a metric has NaN, so that every series has one value a step.
        for name in {**stage.metrics, **result.metrics}:
            values = stage.metrics.setdefault(name, [float("nan")] * len(stage.steps))
            values.append(float(result.metrics.get(name, "nan")))
        stage.steps.append(step)
        stage.losses.append(float(result.loss))
        stage.learning_rates.append(float(result.learning_rate))

    @hookimpl
    def validated(
        self,
        step: int,
        score: float,
        best: bool,
    ) -> None:
        """Record the validation score."""
        stage = self.stages[-1]
        stage.validations.append((step, float(score)))
        if best:
            self.stages[-1] = attrs.evolve(stage, best_step=step)

    @hookimpl
    def stage_finished(self, best_step: int) -> None:
        """Record the step whose weights the stage keeps: of `keep = "last"`, it need not have the best score."""
        stage = self.stages[-1]
        if stage.validations:
            self.stages[-1] = attrs.evolve(stage, best_step=best_step)

    @hookimpl
    def observed(
        self,
        step: int,
        encoder: str,
        evaluation: Evaluation,
    ) -> None:
        """Record the scores of an evaluation of `watch`."""
        if not evaluation.scores:
            return
        watched = self._watched(encoder, evaluation.scores)
        watched.steps.append(step)
        watched.primary.append(float(evaluation.primary))
        watched.values.append([float(score.value) for score in evaluation.scores])

    def _watched(self, encoder: str, scores: tuple[Score, ...]) -> Watched:
        """Return the curves of the current stage for these scores; the first evaluation creates them."""
        curves = self.stages[-1].watched
        identity = _identity(scores)
        for watched in curves:
            if watched.encoder == encoder and _identity(watched.scores) == identity:
                return watched
        curves.append(Watched(encoder, scores[0].evaluator, scores))
        return curves[-1]

    def report_data(
        self,
        run: Run,
        status: RunStatus,
        error: BaseException | None,
        recipe_toml: str,
    ) -> ReportData:
        """Return the data for the report of a run that has ended."""
        reason = None
        if error is not None:
            reason = str(error) or type(error).__name__
        return ReportData(
            name=run.name,
            status=status,
            error=reason,
            started=self.started.isoformat(timespec="seconds"),
            seconds=self.total_seconds(),
            recipe_toml=recipe_toml,
            manifest=run.facts,
            scores=tuple(self.scores),
            expected=tuple(expected_rows(run.recipe.expected, self.scores)),
            stages=tuple(self.stages),
            warnings=tuple(self.warnings),
        )


def _identity(scores: Sequence[Score]) -> list[Any]:
    """Return the evaluator, task, metric and protocol of each score.

    Evaluations for which they are equal are points of the same curves. Notes are not included, since they may
    differ from one evaluation to the next.
    """
    identity = []
    for score in scores:
        protocol = plain(score.protocol)
        identity.append((score.evaluator, score.task, score.metric, protocol))
    return identity
