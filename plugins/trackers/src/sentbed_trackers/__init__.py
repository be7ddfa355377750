"""Trackers for sentbed, which show and log the progress and the numbers of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sentbed import hookimpl
from sentbed.protocols import Lazy

if TYPE_CHECKING:
    from sentbed_common import Finding

sentbed_api = "3.0"

PACKAGES = {
    "tensorboard": ("tensorboard",),
    "mlflow": ("mlflow-skinny", "alembic", "sqlalchemy"),
}
"""Packages that each tracker needs, by its name. The extra that installs them has the same name."""


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


@hookimpl
def findings() -> list[Finding]:
    """Return for each tracker whether its packages are installed."""
    from sentbed_common import packages

    all_findings = []
    for tracker, names in PACKAGES.items():
        all_findings.append(
            packages("trackers", tracker, "sentbed-trackers", names, tracker)
        )
    return all_findings
