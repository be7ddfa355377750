"""Tasks of Ray: Ray queues them, and runs a task once more whose process or machine is lost."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from sentbed.errors import RuntimeUnavailableError
from sentbed.helpers import usable_cores
from sentbed.protocols import Start

from sentbed_jobs.lost_task import RETRIES, lost_task


@contextmanager
def connected(address: str | None) -> Iterator[None]:
    """Connect to the cluster at an address, or start Ray on this machine. A process that is connected stays so.

    Raises:
        RuntimeUnavailableError: if there is no cluster at the address.
    """
    if ray.is_initialized():
        yield
        return

    # Ray sends no usage statistics, and does not warn about the default of a later version at every start.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # By default, Ray starts a task again without end that its machine has no memory for.
    os.environ.setdefault("RAY_task_oom_retries", str(RETRIES))
    options: dict[str, Any] = {"address": address or os.environ.get("RAY_ADDRESS")}
    if not options["address"]:
        # Without an address, Ray would join any cluster that somebody has started on this machine.
        options = {
            "address": "local",
            "num_cpus": usable_cores(),
            "include_dashboard": False,
        }
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(logging_level=logging.ERROR, log_to_driver=False, **options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise RuntimeUnavailableError(
            f"cannot reach Ray at `{address or 'this machine'}`: {_first_line(error)}; start it with "
            "`ray start --head`, or leave the address out to start it on this machine"
        ) from error
    finally:
        # The handler of Ray ends this process without a word. In other threads, Ray sets none.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)

    try:
        yield
    finally:
        ray.shutdown()


def run_tasks(
    start: Start,
    tasks: Sequence[Any],
    workers: int,
    cpus: int | None,
    gpus: int,
) -> Generator[tuple[Any, Any], None, None]:
    """Yield each task with its result; see `Executor.run`. `workers` tasks run at a time.

    Raises:
        RuntimeUnavailableError: if no machine has so many `cpus` and `gpus`.
    """
    cpus = _cpus_of_task(workers, cpus, gpus)
    # Without `max_calls`, a process with a GPU would end after each task, and load everything again.
    as_remote = ray.remote(
        num_cpus=cpus,
        num_gpus=gpus,
        max_retries=RETRIES,
        max_calls=0,
    )
    remote = as_remote(_run_task)
    pickled_start = pickle.dumps(start)
    waiting = deque(tasks)
    running: dict[Any, Any] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                task = waiting.popleft()
                running[remote.remote(pickled_start, cpus, task)] = task

            ready, _ = ray.wait(list(running))
            for reference in ready:
                task = running.pop(reference)
                yield task, _result(reference, task)
    finally:
        for reference in running:
            ray.cancel(reference, force=True)


def _cpus_of_task(workers: int, cpus: int | None, gpus: int) -> int:
    """Return the number of CPUs of a task: `cpus`, or an equal share of the cluster.

    A share is at most what the smallest machine has, so that a cluster that loses a machine has a place for it.

    Raises:
        RuntimeUnavailableError: if no machine has a place for a task, since it would wait forever.
    """
    machines: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    large_enough = []
    descriptions = []
    for machine in machines:
        if not machine["Alive"]:
            continue

        machine_cpus = int(machine["Resources"].get("CPU", 0))
        machine_gpus = int(machine["Resources"].get("GPU", 0))
        descriptions.append(f"{machine_cpus} CPUs and {machine_gpus} GPUs")
        if machine_cpus >= (cpus or 1) and machine_gpus >= gpus:
            large_enough.append(machine_cpus)

    if not large_enough:
        raise RuntimeUnavailableError(
            f"Ray has machines with {', '.join(descriptions) or 'nothing'}; none has a place for a worker with "
            f"{cpus or 1} CPUs and {gpus} GPUs; give each worker less"
        )
    share = sum(large_enough) // workers
    return cpus or max(1, min(share, *large_enough))


@lru_cache(maxsize=1)
def _started(pickled_start: bytes, threads: int) -> Callable[[Any], Any]:
    """Return the function of a process of Ray, which keeps for the next task what `start` has loaded."""
    function: Callable[[Any], Any] = pickle.loads(pickled_start)(threads)
    return function


def _run_task(pickled_start: bytes, threads: int, task: Any) -> Any:
    """Run a task in a process of Ray."""
    return _started(pickled_start, threads)(task)


def _result(reference: Any, task: Any) -> Any:
    """Return the result of a task, or the error of one whose processes have died. Raises what the task raised."""
    try:
        return ray.get(reference)
    except RayTaskError as error:
        raise error.cause from error
    except RayError as error:
        return lost_task(task, f"died ({_first_line(error)})")


def _first_line(error: Exception) -> str:
    """Return the first line of an error's message that is not empty; without one, the class of the error."""
    for line in str(error).splitlines():
        if line.strip():
            return line.strip(" .")
    return type(error).__name__
