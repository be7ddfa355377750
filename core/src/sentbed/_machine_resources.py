"""Resources of this machine: cores and memory."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Return the number of cores that this process may use; on macOS and Windows, the number of all cores."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def physical_memory() -> int | None:
    """Return the memory of the machine in bytes, or None if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None
