"""Hooks of sentbed-jobs: the executors `local` and `ray`."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl
from sentbed.protocols import Lazy


@hookimpl
def executors() -> Mapping[str, Lazy]:
    """Return the executors of this distribution."""
    return {
        "local": Lazy(
            "sentbed_jobs.local:Local",
            "Runs tasks in this process or, with several workers, in processes on this machine.",
        ),
        "ray": Lazy(
            "sentbed_jobs.ray:Ray",
            "Runs tasks in Ray actors, on this machine or on the machines of a cluster.",
        ),
    }
