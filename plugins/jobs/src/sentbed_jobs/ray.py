"""The executor `ray`."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, ClassVar

import attrs
from attrs.validators import ge, optional
from sentbed import RuntimeUnavailableError
from sentbed.protocols import Executor, TaskPool


@attrs.frozen
class Ray(Executor):
    """Actors of Ray, on this machine or on those of a cluster."""

    name: ClassVar[str] = "ray"

    workers: int = attrs.field(default=1, validator=ge(1))
    """How many actors do tasks at a time."""
    cpus: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """CPUs that an actor reserves, and its threads; where left out, those of the cluster in equal parts."""
    gpus: int = attrs.field(default=0, validator=ge(0))
    """GPUs that an actor reserves."""
    address: str | None = None
    """Of a running cluster, or `auto`; where left out, `RAY_ADDRESS`, else Ray is started on this machine."""

    def build(self, say: Callable[[str], Any]) -> TaskPool:
        """Return the pool; Ray is reached with its first task."""
        if importlib.util.find_spec("ray") is None:
            raise RuntimeUnavailableError(
                "the executor `ray` needs the package `ray`, which is not installed; "
                "run `pip install 'sentbed-jobs[ray]'`"
            )
        from sentbed_jobs._ray import RayPool

        return RayPool(self.workers, self.cpus, self.gpus, self.address, say=say)
