"""Hooks of sentbed-jobs: the executors `local` and `ray`."""

from __future__ import annotations

from sentbed import hookimpl
from sentbed.protocols import Executor, Finding

sentbed_api = "2.0"


@hookimpl
def executors() -> list[type[Executor]]:
    """Return the executors of this distribution."""
    from sentbed_jobs.local import Local
    from sentbed_jobs.ray import Ray

    return [Local, Ray]


@hookimpl
def findings() -> list[Finding]:
    """Return which executors can be used here."""
    from sentbed.helpers import packages

    return [
        Finding("executors", "local", "yes"),
        packages("executors", "ray", "sentbed-jobs", ("ray",), "ray"),
    ]
