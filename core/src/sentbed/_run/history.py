"""History of a run, collected through the same lifecycle hooks as trackers use."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import attrs

from sentbed._run.report_json import plain, score_record
from sentbed._value_types import require_types
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
"""Name of the history's state in a checkpoint."""


def _keys(score: Score) -> set[str]:
    """Return the keys of `[expected]` that match this score."""
    metric = f"{score.task}/{score.metric}"
    keys = {score.task, metric, f"{metric}@{score.protocol_id}"}
    return keys | {f"{score.encoder}/{key}" for key in keys}


class History:
    """Collects the scores, curves and scatters of a run."""

    def __init__(self) -> None:
        self._started = datetime.now(UTC)
        self._clock = time.monotonic()
        self.scores: list[Score] = []
        """All scores, in the order in which they were obtained."""
        self._scatters: list[tuple[str, Scatter]] = []
        self._stages: list[StageCurve] = []
        self._warnings: list[str] = []

    @hookimpl
    def run_resumed(self, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Restore the history from the checkpoint."""
        state = states.get(STATE)
        if state is None:
            return
        self._started = datetime.fromisoformat(state["started"])
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
        """Record scores and scatters."""
        self.scores += evaluation.scores
        self._scatters += [(encoder, scatter) for scatter in evaluation.scatters]

    @hookimpl
    def stage_started(self, run: Run, stage: str) -> None:
        """Start the curves of a stage, or continue those of a resumed one."""
        if self._stages and self._stages[-1].name == stage:
            return
        validate = next(s.validate for s in run.recipe.stage if s.name == stage)
        metric = validate.evaluator.name if validate else "validation"
        self._stages.append(StageCurve(stage, metric=metric))

    @hookimpl
    def step_finished(self, step: int, result: StepResult) -> None:
        """Extend the curves."""
        stage = self._stages[-1]
        for name in {**stage.metrics, **result.metrics}:
            values = stage.metrics.setdefault(name, [float("nan")] * len(stage.steps))
            values.append(float(result.metrics.get(name, "nan")))
        stage.steps.append(step)
        stage.losses.append(float(result.loss))
        stage.learning_rates.append(float(result.learning_rate))

    @hookimpl
    def validated(self, step: int, score: float, best: bool) -> None:
        """Record the validation score."""
        stage = self._stages[-1]
        stage.validations.append((step, float(score)))
        if best:
            self._stages[-1] = attrs.evolve(stage, best_step=step)

    @hookimpl
    def observed(self, step: int, encoder: str, evaluation: Evaluation) -> None:
        """Record the scores, but not the scatters, which would take too much space."""
        if not evaluation.scores:
            return
        watched = self._watched(encoder, evaluation.scores)
        watched.steps.append(step)
        watched.primary.append(float(evaluation.primary))
        watched.values.append([float(score.value) for score in evaluation.scores])

    def _watched(self, encoder: str, scores: tuple[Score, ...]) -> Watched:
        """Return the curves of these scores in the current stage, new if this is their first evaluation."""
        curves = self._stages[-1].watched
        identity = _identity(scores)
        for watched in curves:
            if watched.encoder == encoder and _identity(watched.scores) == identity:
                return watched
        curves.append(Watched(encoder, scores[0].evaluator, scores))
        return curves[-1]

    def expected(self, recipe: RecipeParts) -> Iterator[ExpectedRow]:
        """Yield each number of `[expected]` with the measured number."""
        final = [score for score in self.scores if not score.encoder.endswith(START)]
        skipped_keys = _skipped_keys(final)
        for key, expected in recipe.expected.items():
            matches = _matches(key, final)
            tolerance = expected.tolerance
            if not matches and key in skipped_keys:
                tolerance = None
            # Two matches are ambiguous: the key must be more specific.
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
        self, run: Run, status: RunStatus, error: BaseException | None, recipe_toml: str
    ) -> ReportData:
        """Return the data of the report."""
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
    """Return the scores that match a key of `[expected]`; without a metric, only in the task's first one."""
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
    """Return the keys of tasks that were skipped for want of data, and of means over them; none is judged."""
    keys: set[str] = set()
    for score in scores:
        if score.skipped:
            for task in (*score.skipped, "AVG"):
                keys |= _keys(attrs.evolve(score, task=task))
    return keys


def _identity(scores: Sequence[Score]) -> list[Any]:
    """Return evaluator, task, metric and protocol of each score.

    Evaluations that agree in them are points of the same curves. Notes are not included: they may differ from
    one evaluation to the next.
    """
    return [
        (score.evaluator, score.task, score.metric, plain(score.protocol))
        for score in scores
    ]


def _tables(scores: Sequence[Score]) -> list[dict[str, Any]]:
    """Return scores as JSON-serialisable tables, without their items."""
    tables = []
    for score in scores:
        table = score_record(score)
        table["value"] = float(score.value)
        table["protocol"] = plain(score.protocol)
        tables.append(table)
    return tables


def _scatter_table(scatter: Scatter) -> dict[str, Any]:
    """Return a scatter as a JSON-serialisable table."""
    return {
        **attrs.asdict(scatter),
        "x": [*map(float, scatter.x)],
        "y": [*map(float, scatter.y)],
    }


def _stage_table(stage: StageCurve) -> dict[str, Any]:
    """Return the curves of a stage as a JSON-serialisable table."""
    watched = []
    for series in stage.watched:
        watched.append(
            {**attrs.asdict(series, recurse=False), "scores": _tables(series.scores)}
        )
    return {**attrs.asdict(stage, recurse=False), "watched": watched}


def _restored(tables: Sequence[Mapping[str, Any]]) -> list[Score]:
    """Restore scores from the tables of a history's state. Raises `TypeError` for values of other types."""
    scores = []
    for table in tables:
        skipped = tuple(table.get("skipped", ()))
        score = Score(**{**table, "skipped": skipped})
        require_types(score)
        scores.append(score)
    return scores


def _scatter(encoder: str, table: Mapping[str, Any]) -> tuple[str, Scatter]:
    """Restore the scatter of an encoder from a history's state. Raises as `_restored`, and `ValueError`."""
    scatter = Scatter(**table)
    require_types(scatter)
    if len(scatter.x) != len(scatter.y):
        raise ValueError(
            f"the scatter {scatter.title!r:.80} has {len(scatter.x)} x and {len(scatter.y)} y"
        )
    return str(encoder), scatter


def _stage(table: Mapping[str, Any]) -> StageCurve:
    """Restore a stage from a history's state. Raises as `_restored`, and `ValueError`."""
    watched = []
    for series_table in table["watched"]:
        scores = tuple(_restored(series_table["scores"]))
        watched.append(Watched(**{**series_table, "scores": scores}))
    validations = [*map(tuple, table["validations"])]
    stage = StageCurve(**{**table, "validations": validations, "watched": watched})
    require_types(stage)
    for values in (stage.losses, stage.learning_rates, *stage.metrics.values()):
        _require_length(values, len(stage.steps))
    for series in stage.watched:
        _require_length(series.primary, len(series.steps))
        _require_length(series.values, len(series.steps))
        for values_of_step in series.values:
            _require_length(values_of_step, len(series.scores))
    return stage


def _require_length(values: Sequence[Any], length: int) -> None:
    """Raise `ValueError` if a series does not have `length` values (one per step, or one per score)."""
    if len(values) != length:
        raise ValueError(
            f"a series of the history has {len(values)} values, expected {length}"
        )
