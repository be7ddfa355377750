"""Launching of a run's processes with torchrun's own launcher."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from sentbed import RuntimeUnavailableError

FAILED, INTERRUPTED = 1, 130
PATIENCE = 7 * 24 * 3600
"""Seconds that processes have to end after a signal, since saving a state may take long. A second signal
kills them."""


def launch(
    command: Sequence[str], devices: int, nodes: int, rendezvous: str | None
) -> int:
    """Run `command` in every process of this machine; see `Distributed` and its method `launch`.

    This is `torchrun`, called in this process: it prints no traceback of its own, and knows how each ended.
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
    from torch.distributed.elastic.rendezvous import RendezvousError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    from sentbed_hardware._common import meeting_point
    from sentbed_hardware._common.message_signatures import KEY_VARIABLE, new_key

    # Each has its own level, and their messages are given below.
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("torch.distributed.elastic"):
            logging.getLogger(name).disabled = True
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(PATIENCE))
    meeting_point.register()
    alone = nodes == 1
    if alone:
        os.environ.setdefault(KEY_VARIABLE, new_key())
    if alone and sys.platform == "linux":
        # Communication within a machine must not depend on a host name that resolves.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory(prefix="sentbed-") as logs:
        config = LaunchConfig(
            min_nodes=nodes,
            max_nodes=nodes,
            nproc_per_node=devices,
            run_id=uuid4().hex if alone else "sentbed",
            rdzv_backend=meeting_point.BACKEND,
            rdzv_endpoint="localhost:0" if alone else str(rendezvous),
            local_addr="localhost" if alone else None,
            max_restarts=0,
            logs_specs=DefaultLogsSpecs(log_dir=logs),
        )
        try:
            elastic_launch(config, command[0])(*command[1:])
        except SignalException:
            return INTERRUPTED
        except ChildFailedError as error:
            return _code_of(error.failures)
        except (RendezvousError, RuntimeError, OSError, ValueError) as error:
            why = str(error.__cause__ or error).splitlines()[0]
            where = "" if alone else f" at `{rendezvous}`"
            raise RuntimeUnavailableError(
                f"the processes could not meet{where}: {why}; "
                "look whether the address and port are right and open, and all machines were started"
            ) from error
    return 0


def _code_of(failures: dict[int, Any]) -> int:
    """Return the exit code of the first process, or that of a failure; name those that were killed."""
    killed = {
        rank: -failure.exitcode
        for rank, failure in failures.items()
        if failure.exitcode < 0
    }
    first = failures.get(0)
    for rank, number in killed.items():
        # The signals that end the others after a failure are not worth a message.
        if number != signal.SIGTERM:
            out = " (is the machine out of memory?)" if number == signal.SIGKILL else ""
            print(
                f"process {rank} was ended by {signal.Signals(number).name}{out}",
                file=sys.stderr,
            )
    if first is None:
        return FAILED
    return 128 - first.exitcode if first.exitcode < 0 else int(first.exitcode)
