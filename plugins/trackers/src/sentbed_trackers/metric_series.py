"""Names of a run's metrics as series over steps, the same for every tracking service."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from sentbed import hookimpl
from sentbed.protocols import Evaluation, StepResult


def missing(library: str, tracker: str) -> str | None:
    """Return a message with the extra to install, or None if the library is installed; imports nothing."""
    if find_spec(library) is not None:
        return None
    return (
        f"the tracker `{tracker}` needs the package `{library}`, which is not installed; "
        f"install it with `pip install 'sentbed-trackers[{tracker}]'`"
    )


class SeriesTracker:
    """Base class that turns the events of a run into points of named series; a subclass sends them.

    Steps are counted within a stage, so that the name of a series begins with that of the stage: `nli/loss`,
    `nli/validation`, `nli/watch/ENCODER/TASK/METRIC/PROTOCOL`. Scores of `[[evaluate]]` are
    `scores/ENCODER/TASK/METRIC/PROTOCOL` at step 0.
    """

    def put(self, step: int, values: Mapping[str, float]) -> None:
        """Send the value of each series at a step."""
        raise NotImplementedError

    @hookimpl
    def step_finished(self, stage: str, step: int, result: StepResult) -> None:
        """Send loss, learning rate, gradient norm and the loss's own metrics."""
        values = {
            **result.metrics,
            "loss": result.loss,
            "learning_rate": result.learning_rate,
            "grad_norm": result.grad_norm,
        }
        self.put(step, {f"{stage}/{name}": value for name, value in values.items()})

    @hookimpl
    def validated(self, stage: str, step: int, score: float) -> None:
        """Send the validation score."""
        self.put(step, {f"{stage}/validation": score})

    @hookimpl
    def observed(
        self, stage: str, step: int, encoder: str, evaluation: Evaluation
    ) -> None:
        """Send the scores of a watched evaluation."""
        self.put(step, _series(f"{stage}/watch", encoder, evaluation))

    @hookimpl
    def scores_ready(self, encoder: str, evaluation: Evaluation) -> None:
        """Send the scores of an evaluation."""
        self.put(0, _series("scores", encoder, evaluation))


def _series(prefix: str, encoder: str, evaluation: Evaluation) -> dict[str, float]:
    """Return name of a series -> score."""
    series = {}
    for score in evaluation.scores:
        parts = (prefix, encoder, score.task, score.metric, score.protocol_id)
        series["/".join(filter(None, parts))] = score.value
    return series
