"""Trackers for sentbed, which show and log the progress and the numbers of a run."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl
from sentbed.protocols import Lazy


@hookimpl
def trackers() -> Mapping[str, Lazy]:
    """Return the trackers of this distribution."""
    return {
        "tensorboard": Lazy(
            "sentbed_trackers.tensorboard:TensorBoard",
            "Writes event files for TensorBoard: every number of the run, and its recipe.",
        ),
        "mlflow": Lazy(
            "sentbed_trackers.mlflow:MLflow",
            "Sends a run to MLflow: the values of the recipe as parameters, every number of the run as a metric.",
        ),
    }
