"""Trackers for sentbed, which show and log a run."""

from __future__ import annotations

from sentbed import hookimpl
from sentbed.protocols import Finding, Tracker

sentbed_api = "2.0"


@hookimpl
def trackers() -> list[type[Tracker]]:
    """Return the trackers of this distribution."""

    from sentbed_trackers.mlflow import MLflow
    from sentbed_trackers.tensorboard import TensorBoard

    return [TensorBoard, MLflow]


@hookimpl
def findings() -> list[Finding]:
    """Return which tracking services are available on this machine."""
    from sentbed_trackers.doctor import findings

    return list(findings())
