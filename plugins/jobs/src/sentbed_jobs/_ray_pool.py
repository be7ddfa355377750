"""Task pool of the executor `ray`: Ray actors on this machine or on the machines of a cluster."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import ray
from ray.exceptions import RayError
from sentbed.errors import RuntimeUnavailableError
from sentbed.helpers import usable_cores
from sentbed_common import OnDeath, Start

from sentbed_jobs.pool_loop import (
    RETRIES,
    Died,
    Done,
    Event,
    Failed,
    Result,
    Say,
    Task,
    TaskRunner,
    run_pool,
)


@attrs.frozen
class RayPool:
    """Task pool with one Ray actor per worker."""

    workers: int = 1
    cpus: int | None = None
    """Number of CPUs and threads per actor; by default the largest number with which all actors fit."""
    gpus: int = 0
    """Number of GPUs per actor."""
    address: str | None = None
    """Address of a running cluster, or `auto`. By default, it is the environment variable `RAY_ADDRESS`; if
    that is not set, Ray is started on this machine."""
    retries: int = RETRIES
    say: Say = print

    def run(
        self,
        start: Start[Task, Result],
        tasks: Sequence[Task],
        on_death: OnDeath[Task, Result] | None = None,
    ) -> Generator[tuple[Task, Result], None, None]:
        """Yield each task with its result; see `TaskPool.run`.

        Raises:
            RuntimeUnavailableError: if there is no cluster at the address, or if the cluster is too small.
        """
        if not tasks:
            return

        with self._connected():
            descriptions: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
            nodes = [node["Resources"] for node in descriptions if node["Alive"]]
            resources = actor_resources(nodes, self.workers, self.cpus, self.gpus)
            actor = ray.remote(_Actor).options(
                max_restarts=0, max_task_retries=0, **resources
            )
            transport = _Actors(actor, start, resources["num_cpus"])
            yield from run_pool(
                transport,
                self.workers,
                tasks,
                self.retries,
                self.say,
                on_death,
            )

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Connect to the cluster, or start Ray on this machine. Do neither if the process is connected already.

        Raises:
            RuntimeUnavailableError: if there is no cluster at the address.
        """
        if ray.is_initialized():
            yield
            return

        # Ray sends no usage statistics, and does not warn about the default of a later version at every start.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        address = self.address or os.environ.get("RAY_ADDRESS") or None
        options: dict[str, Any] = {
            "address": address,
            "logging_level": logging.ERROR,
            "log_to_driver": False,
        }
        if address is None:
            # On one machine, workers may share a core.
            options["num_cpus"] = max(usable_cores(), self.workers * (self.cpus or 1))
            options["address"] = "local"
            options["include_dashboard"] = False
        try:
            with _sigterm_restored():
                ray.init(**options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise RuntimeUnavailableError(
                f"cannot reach Ray at `{address or 'this machine'}`: {_first_line(error)}; start it with "
                "`ray start --head`, or leave the address out to start it on this machine"
            ) from error

        try:
            yield
        finally:
            ray.shutdown()


@contextmanager
def _sigterm_restored() -> Iterator[None]:
    """Restore the handler of SIGTERM after `ray.init`, which sets a handler that ends the process silently."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def actor_resources(
    nodes: Sequence[Mapping[str, float]],
    workers: int,
    cpus: int | None,
    gpus: int,
) -> dict[str, int]:
    """Return the resources of each actor: `cpus` CPUs and `gpus` GPUs.

    If `cpus` is None, an actor gets the largest number of CPUs with which all actors fit. `nodes` has the
    resources of each machine, `workers` is the number of actors.

    Raises:
        RuntimeUnavailableError: if not all actors fit, since an actor without a place would wait forever.
    """
    if cpus:
        candidates: Iterable[int] = [cpus]
    else:
        largest = max((int(node.get("CPU", 0)) for node in nodes), default=0)
        candidates = range(largest, 0, -1)
    for cpus_of_actor in candidates:
        if _places(nodes, cpus_of_actor, gpus) >= workers:
            return {"num_cpus": cpus_of_actor, "num_gpus": gpus}

    sizes = []
    for node in nodes:
        node_cpus, node_gpus = int(node.get("CPU", 0)), int(node.get("GPU", 0))
        sizes.append(f"{node_cpus} CPUs and {node_gpus} GPUs")
    raise RuntimeUnavailableError(
        f"Ray has machines with {', '.join(sizes) or 'nothing'}; there is no place for {workers} workers "
        f"with {cpus or 1} CPUs and {gpus} GPUs each; take fewer workers, or give each less"
    )


def _places(
    nodes: Iterable[Mapping[str, float]],
    cpus: int,
    gpus: int,
) -> int:
    """Return how many actors fit on these nodes, each with this number of CPUs and GPUs."""
    places = 0
    for node in nodes:
        places_on_node = int(node.get("CPU", 0) // cpus)
        if gpus:
            places_on_node = min(places_on_node, int(node.get("GPU", 0) // gpus))
        places += places_on_node
    return places


class _Actor:
    """Class of the actors: runs tasks in a process of Ray."""

    def __init__(self, start: Start[Any, Any], threads: int) -> None:
        self.runner: TaskRunner[Any, Any] = TaskRunner(start, threads)

    def run(self, task: Any) -> Done | Failed:
        return self.runner.run(task)


@attrs.define(eq=False)
class _Worker:
    """A worker of the pool: a running actor."""

    actor: Any
    answer: Any = None
    """Reference to the result of the current task."""


@attrs.frozen(eq=False)
class _Actors:
    """Transport (`pool_loop.Transport`) between the pool and its actors."""

    actor: Any
    """Remote class of the actors, with the resources of each."""
    start: Start[Any, Any]
    threads: int

    def start_worker(self) -> _Worker:
        return _Worker(self.actor.remote(self.start, self.threads))

    def submit(self, worker: _Worker, task: Any) -> None:
        worker.answer = worker.actor.run.remote(task)

    def wait(self, workers: Sequence[_Worker]) -> list[tuple[_Worker, Event]]:
        by_answer = {worker.answer: worker for worker in workers}
        ready, _ = ray.wait(list(by_answer), num_returns=1)
        return [(by_answer[answer], _result(answer)) for answer in ready]

    def shutdown(self, workers: Sequence[_Worker]) -> None:
        for worker in workers:
            ray.kill(worker.actor, no_restart=True)


def _result(answer: Any) -> Event:
    """Return what the actor returned for its task, or the death of the actor."""
    try:
        event: Event = ray.get(answer)
    except RayError as error:
        return Died(f"died ({_first_line(error)})")
    return event


def _first_line(error: Exception) -> str:
    """Return the first line of an error's message that is not empty; without one, the class of the error."""
    for line in str(error).splitlines():
        if line.strip():
            return line.strip(" .")
    return type(error).__name__
