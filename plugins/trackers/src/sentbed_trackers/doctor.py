"""Checks of the trackers' libraries, for `sentbed doctor`."""

from __future__ import annotations

from collections.abc import Iterator

from sentbed_common import Finding, packages

PACKAGES = {
    "tensorboard": ("tensorboard",),
    "mlflow": ("mlflow-skinny", "alembic", "sqlalchemy"),
}
"""Tracker, which is also the extra of this distribution -> the packages that it needs."""


def findings() -> Iterator[Finding]:
    """Yield which trackers have their library installed."""
    for tracker, names in PACKAGES.items():
        yield packages("trackers", tracker, "sentbed-trackers", names, tracker)
