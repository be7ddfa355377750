"""Checks for `sentbed doctor` whether the libraries of the trackers are installed."""

from __future__ import annotations

from collections.abc import Iterator

from sentbed_common import Finding, packages

PACKAGES = {
    "tensorboard": ("tensorboard",),
    "mlflow": ("mlflow-skinny", "alembic", "sqlalchemy"),
}
"""Packages that each tracker needs, by its name. The extra that installs them has the same name."""


def findings() -> Iterator[Finding]:
    """Yield for each tracker whether its packages are installed."""
    for tracker, names in PACKAGES.items():
        yield packages("trackers", tracker, "sentbed-trackers", names, tracker)
