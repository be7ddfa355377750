"""Executor `local`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import attrs
from attrs.validators import ge, optional
from sentbed.protocols import Executor
from sentbed_common import TaskPool


@attrs.frozen
class Local(Executor):
    """This process, or, with several workers, processes of this machine."""

    name: ClassVar[str] = "local"

    workers: int = attrs.field(default=1, validator=ge(1))
    """Number of tasks that run at a time; with 1, they run in this process."""
    cpus: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of threads per worker; by default torch's choice for one worker, and an equal share of the cores
    for several."""
    gpus: int = attrs.field(default=0, validator=ge(0))
    """Number of GPUs reserved for each of several workers; with 0, every worker sees all."""

    def build(self, say: Callable[[str], Any]) -> TaskPool:
        """Return the pool, which starts its processes with the first task."""
        from sentbed_jobs.local_pool import LocalPool

        return LocalPool(self.workers, self.cpus, self.gpus, say=say)
