"""The environment variables that `torchrun` sets: rank of a process and number of processes."""

from __future__ import annotations

import os

VARIABLES = frozenset({"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
"""Variables that `torchrun` sets in each process."""


def is_member() -> bool:
    """Return whether `torchrun` has started this process."""
    return os.environ.keys() >= VARIABLES


def is_first() -> bool:
    """Return whether this is the only process, or the first of those that `torchrun` has started."""
    return not is_member() or int(os.environ["RANK"]) == 0


def started_processes() -> int | None:
    """Return the number of processes that `torchrun` has started on all machines; None without it."""
    if not is_member():
        return None

    return int(os.environ["WORLD_SIZE"])


def processes_on_this_machine() -> int:
    """Return the number of processes that `torchrun` has started on this machine; 1 without it."""
    if not is_member():
        return 1

    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
