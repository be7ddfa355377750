"""Start of a run's processes on this machine, with the launcher of `torchrun`."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

from sentbed import RuntimeUnavailableError

FAILED, INTERRUPTED = 1, 130
"""Exit codes of a run: if only other processes than the first have failed, and if a signal ended the launcher."""
PATIENCE = 7 * 24 * 3600
"""Seconds that processes may take to end after a signal. Saving a state may take long, and a second signal kills
the processes."""

SINGLE_MACHINE = "localhost:0"
"""Endpoint of a run on one machine; the system chooses the port."""
CONNECTING = timedelta(seconds=60)
"""Time limit for a connection to the key-value store, which the first machine hosts."""
GATHERING = timedelta(minutes=10)
"""Time limit until all machines of the run have connected."""

MACHINES, COMPLETE = "machines", "complete"
"""Entries of the key-value store: the number of machines besides the first, and a mark once all have
connected."""


def launch(
    command: Sequence[str],
    devices: int,
    nodes: int,
    rendezvous: str | None,
) -> int:
    """Run `command` in `devices` processes on this machine, and return the exit code of the run.

    `devices`, `nodes` and `rendezvous` are fields of `Distributed`. torchrun's launcher is called as a function,
    not as a command: so it prints no traceback, and tells how each process has ended.

    Raises:
        RuntimeUnavailableError: if PyTorch lacks `torch.distributed`, or the machines cannot connect.
    """
    import torch.distributed as dist

    if not dist.is_available():
        raise RuntimeUnavailableError(
            "this PyTorch is built without `torch.distributed`; set `devices` and `nodes` to 1"
        )

    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import elastic_launch

    from sentbed_hardware._common.process_messages import require_key

    _silence_launcher()
    endpoint = rendezvous or SINGLE_MACHINE
    if nodes == 1:
        endpoint = SINGLE_MACHINE
        _prepare_single_machine()

    require_key()

    with tempfile.TemporaryDirectory(prefix="sentbed-") as logs:
        try:
            # The first machine's store is open as long as `store` exists.
            store, number = meet(endpoint, nodes)
            host = endpoint.rpartition(":")[0]
            address = f"{host}:{store.port}"
            config = _launch_config(devices, nodes, address, number, logs)
            elastic_launch(config, command[0])(*command[1:])
        except SignalException:
            return INTERRUPTED
        except ChildFailedError as error:
            return _code_of(error.failures)
        except (RuntimeError, OSError, ValueError) as error:
            why = str(error.__cause__ or error).splitlines()[0]
            raise RuntimeUnavailableError(
                f"the processes could not connect at `{endpoint}`: {why}; check that the address and the port "
                "are right and open, and that all machines were started"
            ) from error

    return 0


def _silence_launcher() -> None:
    """Switch off the log messages of torchrun's launcher, since `launch` reports failures itself."""
    for name in list(logging.root.manager.loggerDict):
        # Each of these loggers has its own level, so a level of their parent has no effect.
        if name.startswith("torch.distributed.elastic"):
            logging.getLogger(name).disabled = True


def _prepare_single_machine() -> None:
    """Set the environment variables that processes on one machine need, unless the user has set them."""
    from sentbed_hardware._common.process_messages import KEY_VARIABLE, new_key

    os.environ.setdefault(KEY_VARIABLE, new_key())
    if sys.platform == "linux":
        # Without it, Gloo looks up the machine's host name, which may not resolve.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


def _launch_config(
    devices: int,
    machines: int,
    address: str,
    number: int,
    logs: str,
) -> Any:
    """Return the configuration of torchrun's launcher for machine `number` of a run.

    `address` is that of the store, `logs` a directory for the launcher's files.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.launcher.api import LaunchConfig

    return LaunchConfig(
        min_nodes=machines,
        max_nodes=machines,
        nproc_per_node=devices,
        run_id="sentbed",
        # torchrun's other rendezvous loads pickles from the store, which can run code.
        rdzv_backend="static",
        rdzv_endpoint=address,
        rdzv_configs={"rank": number},
        max_restarts=0,
        shutdown_timeout=PATIENCE,
        logs_specs=DefaultLogsSpecs(log_dir=logs),
    )


def meet(endpoint: str, machines: int) -> tuple[Any, int]:
    """Connect the machines of a run, and return their key-value store and the number of this machine.

    The machine with the address `endpoint` hosts the store and has the number 0. The other machines are
    numbered in the order in which they connect.

    Raises:
        RuntimeError: if the first machine does not answer, or not all machines connect in time.
        ValueError: if more machines connect than the run has.
    """
    from torch._C._distributed_c10d import TCPStore
    from torch.distributed import DistNetworkError

    address, _, port = endpoint.rpartition(":")
    host = address.strip("[]")
    # The launcher opens the same store again.
    open_store = partial(
        TCPStore,
        host,
        int(port),
        timeout=CONNECTING,
        wait_for_workers=False,
        multi_tenant=True,
    )
    store = None
    number = 0

    if is_this_machine(host):
        # The port is taken if another launcher on this machine has opened the store.
        with suppress(DistNetworkError):
            store = open_store(is_master=True)

    if store is None:
        store = open_store(is_master=False)
        number = int(store.add(MACHINES, 1))

    if number >= machines:
        raise ValueError(
            f"the run has {machines} machines, and all of them have connected before this one"
        )

    if number == machines - 1:
        store.set(COMPLETE, "")
    store.wait([COMPLETE], GATHERING)
    return store, number


def is_this_machine(host: str) -> bool:
    """Return whether `host` is an address of this machine."""
    for family in (socket.AF_INET, socket.AF_INET6):
        # A server can listen only on an address of its own machine.
        with suppress(OSError), socket.create_server((host, 0), family=family):
            return True

    return False


def _code_of(failures: dict[int, Any]) -> int:
    """Print which processes were killed, and return the exit code of the first process.

    `failures` has the failed processes by rank. If the first is not among them, the code is `FAILED`.
    """
    for rank, failure in failures.items():
        # After a failure, the launcher ends the other processes by SIGTERM.
        if failure.exitcode >= 0 or failure.exitcode == -signal.SIGTERM:
            continue
        name = signal.Signals(-failure.exitcode).name
        memory = ""
        if name == "SIGKILL":
            memory = " (is the machine out of memory?)"
        print(f"process {rank} was ended by {name}{memory}", file=sys.stderr)

    first = failures.get(0)
    if first is None:
        return FAILED

    code = int(first.exitcode)
    if code < 0:
        return 128 - code

    return code
