"""A worker process for the first one."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from typing import Any

import torch.distributed as dist
from sentbed import RunError, SentbedError

from sentbed_hardware._common.calls_in_all_processes import agreed
from sentbed_hardware._common.process_group import lost
from sentbed_hardware._common.process_messages import is_kept, receive

FAILED = 1


def serve(parameters: Any) -> None:
    """Run the calls of the first process until it ends.

    Raises:
        RunError: if something fails in this process alone.
        SystemExit: if another process has ended without a message.
    """
    # Ctrl-C is for the first process, which decides when a run ends: after a step, and with its state saved.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    engine = parameters.build()
    processes = engine.processes
    engine.report_to(lambda message: print(f"process {processes.rank}: {message}", file=sys.stderr))
    signal.signal(signal.SIGTERM, lambda number, _: setattr(processes, "asked", number))
    objects: dict[int, Any] = {0: engine}
    while True:
        try:
            message = receive(objects)
        except Exception as error:
            if lost(error):
                sys.exit(FAILED)
            if isinstance(error, SentbedError):
                raise
            raise RunError(
                f"process {processes.rank} cannot read what the first one has sent "
                f"({type(error).__name__}: {error}); install the same versions on all machines"
            ) from error
        if message is None:
            break
        operation, arguments, number, gone = message
        for one in gone:
            objects.pop(one, None)
        try:
            result = operation(*arguments)
        except Exception as error:
            if lost(error):
                sys.exit(FAILED)
            if not agreed(processes, number):
                what = str(error) if isinstance(error, SentbedError) else f"{type(error).__name__}: {error}"
                raise RunError(f"process {processes.rank}: {what}") from error
            continue
        if is_kept(result):
            objects[number] = result
        del message, arguments, result
    with suppress(RuntimeError):
        dist.destroy_process_group()
