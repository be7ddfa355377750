"""Executor `ray`: runs tasks of Ray, on this machine or on the machines of a cluster."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, ClassVar

import attrs
from attrs.validators import ge, optional
from sentbed.protocols import Executor, Start


@attrs.frozen
class Ray(Executor):
    """Runs tasks of Ray, on this machine or on the machines of a cluster."""

    name: ClassVar[str] = "ray"

    workers: int = attrs.field(default=1, validator=ge(1))
    """Number of tasks that run at a time."""
    cpus: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of CPUs and threads per task; by default an equal share of the cluster, at most the CPUs of its
    smallest machine."""
    gpus: int = attrs.field(default=0, validator=ge(0))
    """Number of GPUs per task."""
    address: str | None = None
    """Address of a running cluster, or `auto`. By default, it is the environment variable `RAY_ADDRESS`; if
    that is not set, Ray is started on this machine."""

    def check(self) -> Iterator[str]:
        """Yield a problem if Ray is not installed."""
        if importlib.util.find_spec("ray") is None:
            yield (
                "the executor `ray` needs the package `ray`, which is not installed; "
                "run `pip install 'sentbed-jobs[ray]'`"
            )

    def run(
        self,
        start: Start,
        tasks: Sequence[Any],
        say: Callable[[str], object] = print,
    ) -> Generator[tuple[Any, Any], None, None]:
        """Yield each task with its result; see `Executor.run`.

        Raises:
            RuntimeUnavailableError: if there is no cluster at the address, or no machine is large enough.
        """
        if not tasks:
            return

        from sentbed_jobs._ray_tasks import connected, run_tasks

        with connected(self.address):
            yield from run_tasks(start, tasks, self.workers, self.cpus, self.gpus)
