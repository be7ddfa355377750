"""Trackers for sentbed, which show and log the progress and the numbers of a run."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl


@hookimpl
def trackers() -> Mapping[str, str]:
    """Return the trackers of this distribution."""
    return {
        "tensorboard": "sentbed_trackers.tensorboard:TensorBoard",
        "mlflow": "sentbed_trackers.mlflow:MLflow",
    }
