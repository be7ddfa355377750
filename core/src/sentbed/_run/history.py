"""History of a run, collected through the same lifecycle hooks as trackers use."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import attrs

from sentbed._recipe.recipe import Recipe
from sentbed._run.report_json import plain, score_record
from sentbed._value_types import require_types
from sentbed.hookspecs import hookimpl
from sentbed.protocols import (
    START,
    Evaluation,
    ExpectedRow,
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
        if (state := states.get(STATE)) is None:
            return
        self._started = datetime.fromisoformat(state["started"])
        self._clock = time.monotonic() - state["seconds"]
        self.scores = _restored(state["scores"])
        self._scatters = [
            _scatter(encoder, table) for encoder, table in state["scatters"]
        ]
        self._stages = [_stage(table) for table in state["stages"]]
        self._warnings = list(map(str, state["warnings"]))

    @hookimpl
    def tracker_state(self) -> tuple[str, Mapping[str, Any]]:
        """Return the whole history."""
        return STATE, {
            "started": self._started.isoformat(),
            "seconds": time.monotonic() - self._clock,
            "scores": _tables(self.scores),
            "scatters": [
                (encoder, _scatter_table(scatter))
                for encoder, scatter in self._scatters
            ],
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
        measures = _measures(evaluation.scores)
        for watched in self._stages[-1].watched:
            if watched.encoder == encoder and _measures(watched.scores) == measures:
                break
        else:
            watched = Watched(
                encoder, evaluation.scores[0].evaluator, evaluation.scores
            )
            self._stages[-1].watched.append(watched)
        watched.steps.append(step)
        watched.primary.append(float(evaluation.primary))
        watched.values.append([float(score.value) for score in evaluation.scores])

    def expected(self, recipe: Recipe) -> Iterator[ExpectedRow]:
        """Yield each number of `[expected]` with the number found."""
        final = [score for score in self.scores if not score.encoder.endswith(START)]
        # A task that was skipped for want of data, and a mean over it, are shown and decide nothing.
        skipped_keys: set[str] = set()
        for score in final:
            if score.skipped:
                for task in (*score.skipped, "AVG"):
                    skipped_keys |= _keys(attrs.evolve(score, task=task))
        for key, expected in recipe.expected.items():
            named = [score for score in final if key in _keys(score)]
            # Without a metric, the key means the evaluator's first metric of the task.
            bare = [s for s in named if key in (s.task, f"{s.encoder}/{s.task}")]
            first = {s.evaluator: s.metric for s in reversed(bare)}
            fitting = [s for s in bare if s.metric == first[s.evaluator]] or named
            # Two matches are ambiguous: the key must be more specific.
            value = fitting[0].value if len(fitting) == 1 else None
            tolerance = expected.tolerance
            if not fitting and key in skipped_keys:
                tolerance = None
            yield ExpectedRow(
                key,
                expected.value,
                tolerance,
                expected.source,
                value,
                fits=len(fitting),
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


def _measures(scores: Sequence[Score]) -> list[Any]:
    """Return what identifies each score's series, without notes on a single evaluation."""
    return [
        (score.evaluator, score.task, score.metric, plain(score.protocol))
        for score in scores
    ]


def _tables(scores: Sequence[Score]) -> list[dict[str, Any]]:
    """Return scores as JSON-serialisable tables, without their items."""
    return [
        {
            **score_record(score),
            "value": float(score.value),
            "protocol": plain(score.protocol),
        }
        for score in scores
    ]


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
    scores = [
        Score(**{**table, "skipped": tuple(table.get("skipped", ()))})
        for table in tables
    ]
    for score in scores:
        require_types(score)
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
        watched.append(
            Watched(
                **{**series_table, "scores": tuple(_restored(series_table["scores"]))}
            )
        )
    stage = StageCurve(
        **{
            **table,
            "validations": [*map(tuple, table["validations"])],
            "watched": watched,
        }
    )
    require_types(stage)
    for values in (stage.losses, stage.learning_rates, *stage.metrics.values()):
        _require_length(values, len(stage.steps))
    for series in stage.watched:
        _require_length(series.primary, len(series.steps))
        _require_length(series.values, len(series.steps))
        for scores in series.values:
            _require_length(scores, len(series.scores))
    return stage


def _require_length(values: Sequence[Any], length: int) -> None:
    """Raise `ValueError` if a series has not one value for each step, or for each score."""
    if len(values) != length:
        raise ValueError(
            f"a series of the history has {len(values)} values, expected {length}"
        )
