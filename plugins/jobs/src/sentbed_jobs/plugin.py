"""Hooks of sentbed-jobs: the executors `local` and `ray`."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl


@hookimpl
def executors() -> Mapping[str, str]:
    """Return the executors of this distribution."""
    return {
        "local": "sentbed_jobs.local:Local",
        "ray": "sentbed_jobs.ray:Ray",
    }
