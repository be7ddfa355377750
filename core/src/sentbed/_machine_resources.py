"""Resources of this machine: cores and memory."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from pathlib import Path


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


def peak_memory() -> int | None:
    """Return the largest resident set of this process so far in bytes; None if the system does not report it."""
    with suppress(OSError):
        # On Linux, `ru_maxrss` may be that of the process that started this one.
        status = Path("/proc/self/status").read_text()
        high_water_mark = re.search(r"^VmHWM:\s*(\d+) kB", status, re.MULTILINE)
        if high_water_mark is not None:
            return int(high_water_mark[1]) * 1024

    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # macOS counts bytes, other systems KiB.
    return peak if sys.platform == "darwin" else peak * 1024
