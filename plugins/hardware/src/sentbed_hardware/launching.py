"""Start of a run's processes by torchrun's launcher."""

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
from sentbed_common import signal_name

FAILED, INTERRUPTED = 1, 130
PATIENCE = 7 * 24 * 3600
"""Seconds that processes may take to end after a signal, since saving a state may take long; a second signal
kills them."""

CONNECTING = timedelta(seconds=60)
GATHERING = timedelta(minutes=10)
"""Time limit for the other machines to come."""

MACHINES, COMPLETE = "machines", "complete"


def launch(
    command: Sequence[str], devices: int, nodes: int, rendezvous: str | None
) -> int:
    """Run `command` in every process of this machine; see `Distributed` and its method `launch`.

    torchrun's launcher runs in this process: it then prints no traceback, and returns how each process ended.
    """
    import torch.distributed as dist

    if not dist.is_available():
        raise RuntimeUnavailableError(
            "this PyTorch is built without `torch.distributed`; set `devices` and `nodes` to 1"
        )

    from torch.distributed.elastic.multiprocessing import (
        DefaultLogsSpecs,
        SignalException,
    )
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    from sentbed_hardware._common.process_messages import (
        KEY_VARIABLE,
        new_key,
        require_key,
    )

    # Each logger has a level of its own. Their messages are reported below.
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("torch.distributed.elastic"):
            logging.getLogger(name).disabled = True

    endpoint = rendezvous or "localhost:0"

    if nodes == 1:
        endpoint = "localhost:0"
        os.environ.setdefault(KEY_VARIABLE, new_key())
        if sys.platform == "linux":
            # Communication within a machine must not depend on a host name that resolves.
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

    require_key()

    with tempfile.TemporaryDirectory(prefix="sentbed-") as logs:
        try:
            store, number = meet(endpoint, nodes)
            host = endpoint.rpartition(":")[0]
            config = LaunchConfig(
                min_nodes=nodes,
                max_nodes=nodes,
                nproc_per_node=devices,
                run_id="sentbed",
                # torchrun's other rendezvous unpickles what it finds in the store.
                rdzv_backend="static",
                rdzv_endpoint=f"{host}:{store.port}",
                rdzv_configs={"rank": number},
                max_restarts=0,
                shutdown_timeout=PATIENCE,
                logs_specs=DefaultLogsSpecs(log_dir=logs),
            )
            elastic_launch(config, command[0])(*command[1:])
        except SignalException:
            return INTERRUPTED
        except ChildFailedError as error:
            return _code_of(error.failures)
        except (RuntimeError, OSError, ValueError) as error:
            why = str(error.__cause__ or error).splitlines()[0]
            raise RuntimeUnavailableError(
                f"the processes could not meet at `{endpoint}`: {why}; "
                "look whether the address and port are right and open, and all machines were started"
            ) from error

    return 0


def meet(endpoint: str, machines: int) -> tuple[Any, int]:
    """Return the key-value store of a run's machines, and the number of this machine.

    The machine at the address hosts the store and has number 0, the others are numbered as they connect.

    Raises:
        RuntimeError: if nobody answers, or not all machines come.
        ValueError: if more machines come than the run has.
    """
    from torch._C._distributed_c10d import TCPStore
    from torch.distributed import DistNetworkError

    host, _, port = endpoint.rpartition(":")
    # The launcher opens the same store again.
    open_store = partial(
        TCPStore,
        host.strip("[]"),
        int(port),
        timeout=CONNECTING,
        wait_for_workers=False,
        multi_tenant=True,
    )
    store = None
    number = 0

    if is_this_machine(host.strip("[]")):
        # Another launcher on this machine may have opened it.
        with suppress(DistNetworkError):
            store = open_store(is_master=True)

    if store is None:
        store = open_store(is_master=False)
        number = int(store.add(MACHINES, 1))

    if number >= machines:
        raise ValueError(f"the run has {machines} machines, and this is another one")

    if number == machines - 1:
        store.set(COMPLETE, "")
    store.wait([COMPLETE], GATHERING)
    return store, number


def is_this_machine(host: str) -> bool:
    """Return whether an address is this machine's."""
    for family in (socket.AF_INET, socket.AF_INET6):
        # Binding works for addresses of this machine only.
        with suppress(OSError), socket.create_server((host, 0), family=family):
            return True

    return False


def _code_of(failures: dict[int, Any]) -> int:
    """Return the exit code of the first process, or `FAILED`; print which processes were killed."""
    for rank, failure in failures.items():
        # The signals that end the others after a failure are not worth a message.
        if failure.exitcode >= 0 or failure.exitcode == -signal.SIGTERM:
            continue
        name = signal_name(-failure.exitcode)
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
