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
            "This process, or, with several workers, processes of this machine.",
        ),
        "ray": Lazy(
            "sentbed_jobs.ray:Ray",
            "Actors of Ray, on this machine or on those of a cluster.",
        ),
    }


@hookimpl
def findings() -> list[Finding]:
    """Return which executors can be used here."""
    from sentbed_common import Finding, packages

    return [
        Finding("executors", "local", "yes"),
        packages("executors", "ray", "sentbed-jobs", ("ray",), "ray"),
    ]
