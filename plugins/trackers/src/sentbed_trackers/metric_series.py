"""Base class of trackers for tracking services: turns the events of a run into named series of numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec

from sentbed import hookimpl
from sentbed.protocols import Evaluation, StepResult


def missing(library: str, tracker: str) -> Iterator[str]:
    """Yield how to install a library that is not installed. The library is not imported."""
    if find_spec(library) is None:
        yield (
            f"the tracker `{tracker}` needs the package `{library}`, which is not installed; "
            f"install it with `pip install 'sentbed-trackers[{tracker}]'`"
        )


class SeriesTracker:
    """Tracker that turns the events of a run into points of named series. A subclass sends the points (`put`).

    Steps are counted within a stage, so the name of a series begins with the name of the stage: `nli/loss`,
    `nli/validation`, `nli/watch/ENCODER/TASK/METRIC/PROTOCOL`. Scores of `[[evaluate]]` have the names
    `scores/ENCODER/TASK/METRIC/PROTOCOL` and the step 0.
    """

    def put(self, step: int, values: Mapping[str, float]) -> None:
        """Send a point of several series; `values` maps the name of each series to its value at this step."""
        raise NotImplementedError

    @hookimpl
    def step_finished(
        self,
        stage: str,
        step: int,
        result: StepResult,
    ) -> None:
        """Send the loss, learning rate, gradient norm and further metrics of a step."""
        numbers = {
            **result.metrics,
            "loss": result.loss,
            "learning_rate": result.learning_rate,
            "grad_norm": result.grad_norm,
        }
        values = {}
        for name, number in numbers.items():
            values[f"{stage}/{name}"] = number
        self.put(step, values)

    @hookimpl
    def validated(
        self,
        stage: str,
        step: int,
        score: float,
    ) -> None:
        """Send a validation score."""
        self.put(step, {f"{stage}/validation": score})

    @hookimpl
    def observed(
        self,
        stage: str,
        step: int,
        encoder: str,
        evaluation: Evaluation,
    ) -> None:
        """Send the scores of an evaluation during a stage (`watch`)."""
        self.put(step, _series(f"{stage}/watch", encoder, evaluation))

    @hookimpl
    def scores_ready(self, encoder: str, evaluation: Evaluation) -> None:
        """Send the scores of an evaluation before or after training."""
        self.put(0, _series("scores", encoder, evaluation))


def _series(
    prefix: str,
    encoder: str,
    evaluation: Evaluation,
) -> dict[str, float]:
    """Return the value of each score of an evaluation, by the name of its series."""
    series = {}
    for score in evaluation.scores:
        parts = (prefix, encoder, score.task, score.metric, score.protocol_id)
        series["/".join(filter(None, parts))] = score.value
    return series
