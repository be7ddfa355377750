"""What `torchrun` tells a process, in its environment, of the others that it has started."""

from __future__ import annotations

import os

VARIABLES = frozenset({"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
"""What `torchrun` sets in each process."""


def is_member() -> bool:
    """Return whether `torchrun` has started this process."""
    return os.environ.keys() >= VARIABLES


def is_first() -> bool:
    """Return whether this process runs the recipe: the first that `torchrun` has started, or the only one."""
    return not is_member() or int(os.environ["RANK"]) == 0


def processes_on_this_machine() -> int:
    """Return how many processes `torchrun` has started on this machine; 1 if it has started none."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if is_member() else 1
