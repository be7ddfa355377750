"""Trackers for sentbed: they show and log the progress and numbers of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sentbed import hookimpl
from sentbed.protocols import Lazy

if TYPE_CHECKING:
    from sentbed_common import Finding

sentbed_api = "3.0"


@hookimpl
def trackers() -> Mapping[str, Lazy]:
    """Return the trackers of this distribution."""
    return {
        "tensorboard": Lazy(
            "sentbed_trackers.tensorboard:TensorBoard",
            "Event files that `tensorboard --logdir runs` shows: every number of the run, and its recipe.",
        ),
        "mlflow": Lazy(
            "sentbed_trackers.mlflow:MLflow",
            "A run of MLflow: the recipe's values as parameters, every number of the run as a metric.",
        ),
    }


@hookimpl
def findings() -> list[Finding]:
    """Return which tracking services are available on this machine."""
    from sentbed_trackers.doctor import findings

    return list(findings())
