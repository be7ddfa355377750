"""Hooks of sentbed-jobs: the executors `local` and `ray`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sentbed import hookimpl
from sentbed.protocols import Lazy

if TYPE_CHECKING:
    from sentbed_common import Finding

sentbed_api = "3.0"


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


@hookimpl
def findings() -> list[Finding]:
    """Return for each executor whether it can be used in this environment."""
    from sentbed_common import Finding, packages

    return [
        Finding("executors", "local", "yes"),
        packages("executors", "ray", "sentbed-jobs", ("ray",), "ray"),
    ]
