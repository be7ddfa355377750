"""What all executors do with a task whose worker has died: try it once more, then give it up."""

from __future__ import annotations

from sentbed.errors import RunError

RETRIES = 1
"""How often a task is run again after its worker has died."""


def lost_task(task: object, death: str) -> RunError:
    """Return the result of a task whose workers have all died; `death` says how the last one did."""
    return RunError(
        f"{task}: {RETRIES + 1} workers died of it, the last one {death}; look at this part, and at the memory"
    )
