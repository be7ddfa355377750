"""Start of a run's processes on this machine, with the launcher of `torchrun`."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from sentbed import RuntimeUnavailableError

FAILED, INTERRUPTED = 1, 130
"""Exit codes of a run: if only other processes than the first have failed, and if a signal ended the launcher."""
PATIENCE = 7 * 24 * 3600
"""Seconds that processes may take to end after a signal. Saving a state may take long, and a second signal kills
the processes."""
LOOPBACK = "127.0.0.1"


def launch(command: Sequence[str], devices: int) -> int:
    """Run `command` in `devices` processes on this machine, and return the exit code of the run.

    torchrun's launcher is called as a function, not as a command: so it prints no traceback, and tells how each
    process has ended.

    Raises:
        RuntimeUnavailableError: if PyTorch lacks `torch.distributed`.
    """
    import torch.distributed as dist

    if not dist.is_available():
        raise RuntimeUnavailableError(
            "this PyTorch is built without `torch.distributed`; set `devices` to 1"
        )

    from torch.distributed.elastic.multiprocessing import (
        DefaultLogsSpecs,
        SignalException,
    )
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    for name in list(logging.root.manager.loggerDict):
        # Failures are reported below. Each of these loggers has its own level.
        if name.startswith("torch.distributed.elastic"):
            logging.getLogger(name).disabled = True

    if sys.platform == "linux":
        # Without it, Gloo looks up the machine's host name, which may not resolve.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

    with tempfile.TemporaryDirectory(prefix="sentbed-") as logs:
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=devices,
            run_id="sentbed",
            rdzv_backend="c10d",
            rdzv_endpoint=f"{LOOPBACK}:0",
            local_addr=LOOPBACK,
            max_restarts=0,
            shutdown_timeout=PATIENCE,
            logs_specs=DefaultLogsSpecs(log_dir=logs),
        )
        try:
            elastic_launch(config, command[0])(*command[1:])
        except SignalException:
            return INTERRUPTED
        except ChildFailedError as error:
            return _code_of(error.failures)

    return 0


def _code_of(failures: dict[int, Any]) -> int:
    """Print which processes were killed, and return the exit code of the first process.

    `failures` has the failed processes by rank. If the first is not among them, or was ended after the failure
    of another, the code is `FAILED`.
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
    if first.exitcode == -signal.SIGTERM and len(failures) > 1:
        return FAILED

    code = int(first.exitcode)
    if code < 0:
        return 128 - code

    return code
