"""Executor `ray`: runs tasks in Ray actors, on this machine or on the machines of a cluster."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, ClassVar

import attrs
from attrs.validators import ge, optional
from sentbed.errors import RuntimeUnavailableError
from sentbed.protocols import Executor
from sentbed_common import TaskPool


@attrs.frozen
class Ray(Executor):
    """Runs tasks in Ray actors, on this machine or on the machines of a cluster."""

    name: ClassVar[str] = "ray"

    workers: int = attrs.field(default=1, validator=ge(1))
    """Number of actors."""
    cpus: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of CPUs and threads per actor; by default the largest number with which all actors fit."""
    gpus: int = attrs.field(default=0, validator=ge(0))
    """Number of GPUs per actor."""
    address: str | None = None
    """Address of a running cluster, or `auto`. By default, it is the environment variable `RAY_ADDRESS`; if
    that is not set, Ray is started on this machine."""

    def build(self, say: Callable[[str], Any]) -> TaskPool:
        """Return the task pool, which connects to Ray when it gets tasks.

        Raises:
            RuntimeUnavailableError: if Ray is not installed.
        """
        if importlib.util.find_spec("ray") is None:
            raise RuntimeUnavailableError(
                "the executor `ray` needs the package `ray`, which is not installed; "
                "run `pip install 'sentbed-jobs[ray]'`"
            )
        from sentbed_jobs._ray_pool import RayPool

        return RayPool(self.workers, self.cpus, self.gpus, self.address, say=say)
