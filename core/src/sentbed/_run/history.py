"""The history of a run: its scores, training curves and warnings, from which the report is written.

It is collected through the same lifecycle hooks that trackers implement.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import attrs

from sentbed._run.report_json import plain, score_record
from sentbed._type_checks import require_types
from sentbed.hookspecs import hookimpl
from sentbed.protocols import (
    START,
    Evaluation,
    ExpectedRow,
    RecipeParts,
    ReportData,
    Run,
    RunStatus,
    Scatter,
    Score,
    StageCurve,
    StepResult,
    Watched,
)

STATE = "history"
"""Name of the history among the states of trackers in a training state."""


def _keys(score: Score) -> set[str]:
    """Return all keys of `[expected]` that match this score."""
    metric = f"{score.task}/{score.metric}"
    keys = {score.task, metric, f"{metric}@{score.protocol_id}"}
    return keys | {f"{score.encoder}/{key}" for key in keys}


class History:
    """Collects the scores, training curves, scatter plots and warnings of a run."""

    def __init__(self) -> None:
        self._started = datetime.now(UTC)
        self._clock = time.monotonic()
        self.scores: list[Score] = []
        """All scores, in the order in which they were computed."""
        self._scatters: list[tuple[str, Scatter]] = []
        self._stages: list[StageCurve] = []
        self._warnings: list[str] = []

    @hookimpl
    def run_resumed(self, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Restore the history from the training state."""
        state = states.get(STATE)
        if state is None:
            return
        self._started = datetime.fromisoformat(state["started"])
        # The time in which no process worked on the run does not count.
        self._clock = time.monotonic() - state["seconds"]
        self.scores = _restored(state["scores"])
        for encoder, table in state["scatters"]:
            self._scatters.append(_scatter(encoder, table))
        self._stages = [_stage(table) for table in state["stages"]]
        self._warnings = list(map(str, state["warnings"]))

    @hookimpl
    def tracker_state(self) -> tuple[str, Mapping[str, Any]]:
        """Return the whole history."""
        scatters = []
        for encoder, scatter in self._scatters:
            scatters.append((encoder, _scatter_table(scatter)))
        return STATE, {
            "started": self._started.isoformat(),
            "seconds": time.monotonic() - self._clock,
            "scores": _tables(self.scores),
            "scatters": scatters,
            "stages": [_stage_table(stage) for stage in self._stages],
            "warnings": self._warnings,
        }

    @hookimpl
    def warned(self, message: str) -> None:
        """Record the warning."""
        self._warnings.append(message)

    @hookimpl
    def scores_ready(self, encoder: str, evaluation: Evaluation) -> None:
        """Record the scores and scatter plots of an evaluation."""
        self.scores += evaluation.scores
        self._scatters += [(encoder, scatter) for scatter in evaluation.scatters]

    @hookimpl
    def stage_started(self, run: Run, stage: str) -> None:
        """Start the curves of a stage, or go on with the curves of a resumed stage."""
        if self._stages and self._stages[-1].name == stage:
            return
        metric = "validation"
        for recipe_stage in run.recipe.stage:
            validate = recipe_stage.validate
            if recipe_stage.name == stage and validate is not None:
                metric = validate.evaluator.name
        self._stages.append(StageCurve(stage, metric=metric))

    @hookimpl
    def step_finished(self, step: int, result: StepResult) -> None:
        """Add a step to the curves of the current stage."""
        stage = self._stages[-1]
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
        stage = self._stages[-1]
        stage.validations.append((step, float(score)))
        if best:
            self._stages[-1] = attrs.evolve(stage, best_step=step)

    @hookimpl
    def stage_finished(self, best_step: int) -> None:
        """Record the step whose weights the stage keeps: of `keep = "last"`, it need not have the best score."""
        stage = self._stages[-1]
        if stage.validations:
            self._stages[-1] = attrs.evolve(stage, best_step=best_step)

    @hookimpl
    def observed(
        self,
        step: int,
        encoder: str,
        evaluation: Evaluation,
    ) -> None:
        """Record the scores of an evaluation of `watch`. Scatter plots would take too much space."""
        if not evaluation.scores:
            return
        watched = self._watched(encoder, evaluation.scores)
        watched.steps.append(step)
        watched.primary.append(float(evaluation.primary))
        watched.values.append([float(score.value) for score in evaluation.scores])

    def _watched(self, encoder: str, scores: tuple[Score, ...]) -> Watched:
        """Return the curves of the current stage for these scores; the first evaluation creates them."""
        curves = self._stages[-1].watched
        identity = _identity(scores)
        for watched in curves:
            if watched.encoder == encoder and _identity(watched.scores) == identity:
                return watched
        curves.append(Watched(encoder, scores[0].evaluator, scores))
        return curves[-1]

    def expected(self, recipe: RecipeParts) -> Iterator[ExpectedRow]:
        """Yield each number that the recipe expects, together with the measured number."""
        final = [score for score in self.scores if not score.encoder.endswith(START)]
        skipped_keys = _skipped_keys(final)
        for key, expected in recipe.expected.items():
            matches = _matches(key, final)
            tolerance = expected.tolerance
            if not matches and key in skipped_keys:
                tolerance = None
            # If several scores match, it is not clear which is meant: the key must be more specific.
            value = matches[0].value if len(matches) == 1 else None
            yield ExpectedRow(
                key,
                expected.value,
                tolerance,
                expected.source,
                value,
                fits=len(matches),
            )

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
            started=self._started.isoformat(timespec="seconds"),
            seconds=time.monotonic() - self._clock,
            recipe_toml=recipe_toml,
            manifest=run.facts,
            scores=tuple(self.scores),
            expected=tuple(self.expected(run.recipe)),
            stages=tuple(self._stages),
            scatters=tuple(self._scatters),
            warnings=tuple(self._warnings),
        )


def _matches(key: str, scores: Sequence[Score]) -> list[Score]:
    """Return the scores that match a key of `[expected]`.

    A key without a metric matches only the first metric of the task.
    """
    matches = [score for score in scores if key in _keys(score)]
    first_metrics: dict[str, str] = {}
    in_first_metric = []
    for score in matches:
        if key not in (score.task, f"{score.encoder}/{score.task}"):
            continue
        metric = first_metrics.setdefault(score.evaluator, score.metric)
        if score.metric == metric:
            in_first_metric.append(score)
    return in_first_metric or matches


def _skipped_keys(scores: Sequence[Score]) -> set[str]:
    """Return the keys of tasks that were skipped because their data is missing, and of means without such tasks.

    An expected number with such a key is not compared.
    """
    keys: set[str] = set()
    for score in scores:
        if score.skipped:
            for task in (*score.skipped, "AVG"):
                keys |= _keys(attrs.evolve(score, task=task))
    return keys


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


def _tables(scores: Sequence[Score]) -> list[dict[str, Any]]:
    """Return scores as tables for JSON, without their items."""
    tables = []
    for score in scores:
        table = score_record(score)
        table["value"] = float(score.value)
        table["protocol"] = plain(score.protocol)
        tables.append(table)
    return tables


def _scatter_table(scatter: Scatter) -> dict[str, Any]:
    """Return a scatter plot as a table for JSON."""
    table = attrs.asdict(scatter)
    table["x"] = list(map(float, scatter.x))
    table["y"] = list(map(float, scatter.y))
    return table


def _stage_table(stage: StageCurve) -> dict[str, Any]:
    """Return the curves of a stage as a table for JSON."""
    table = attrs.asdict(stage, recurse=False)
    table["watched"] = []
    for watched in stage.watched:
        watched_table = attrs.asdict(watched, recurse=False)
        watched_table["scores"] = _tables(watched.scores)
        table["watched"].append(watched_table)
    return table


def _restored(tables: Sequence[Mapping[str, Any]]) -> list[Score]:
    """Return the scores that tables from a training state describe.

    Raises:
        TypeError: if a value has another type.
    """
    scores = []
    for table in tables:
        skipped = tuple(table.get("skipped", ()))
        score = Score(**{**table, "skipped": skipped})
        require_types(score)
        scores.append(score)
    return scores


def _scatter(encoder: str, table: Mapping[str, Any]) -> tuple[str, Scatter]:
    """Return the scatter plot of an encoder that a table from a training state describes.

    Raises:
        TypeError: if a value has another type.
        ValueError: if there are not as many x as y.
    """
    scatter = Scatter(**table)
    require_types(scatter)
    if len(scatter.x) != len(scatter.y):
        raise ValueError(
            f"the scatter {scatter.title!r:.80} has {len(scatter.x)} x and {len(scatter.y)} y"
        )
    return str(encoder), scatter


def _stage(table: Mapping[str, Any]) -> StageCurve:
    """Return the curves of a stage that a table from a training state describes.

    Raises:
        TypeError: if a value has another type.
        ValueError: if a curve does not have a value for each step.
    """
    watched = []
    for watched_table in table["watched"]:
        scores = tuple(_restored(watched_table["scores"]))
        watched.append(Watched(**{**watched_table, "scores": scores}))
    validations = list(map(tuple, table["validations"]))
    stage = StageCurve(**{**table, "validations": validations, "watched": watched})
    require_types(stage)

    for values in (stage.losses, stage.learning_rates, *stage.metrics.values()):
        _require_length(values, len(stage.steps))
    for curves in stage.watched:
        _require_length(curves.primary, len(curves.steps))
        _require_length(curves.values, len(curves.steps))
        for values_of_step in curves.values:
            _require_length(values_of_step, len(curves.scores))
    return stage


def _require_length(values: Sequence[Any], length: int) -> None:
    """Raise `ValueError` if there are not `length` values (one per step, or one per score)."""
    if len(values) != length:
        raise ValueError(
            f"a series of the history has {len(values)} values, expected {length}"
        )
