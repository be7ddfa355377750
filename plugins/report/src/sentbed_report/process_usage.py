"""Processor time and peak memory of this process, as counted by the operating system."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import attrs

PROCESS = Path("/proc/self")
"""Directory in which Linux describes this process."""


def processor_seconds() -> float:
    """Return the processor time (user and system) of this process and its finished children, in seconds."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@attrs.define
class PeakMemory:
    """Largest resident set of this process since `begin`."""

    process: Path = PROCESS
    _earlier: int | None = None
    """Peak in bytes before `begin`, if the system cannot reset its counter; None if the counter was reset."""

    def begin(self) -> None:
        """Reset the system's peak if possible (Linux: `clear_refs` in proc(5)); if not, note the peak so far."""
        try:
            (self.process / "clear_refs").write_text("5")
        except OSError:
            self._earlier = _peak(self.process)
        else:
            self._earlier = None

    def read(self) -> int | None:
        """Return the peak since `begin` in bytes; None if it is unknown, as when an earlier peak was higher."""
        peak = _peak(self.process)
        if peak is None:
            return None
        # Without a reset, the system states the higher of two peaks: before `begin`, and since then.
        if self._earlier is not None and peak <= self._earlier:
            return None
        return peak


def _peak(process: Path) -> int | None:
    """Return the largest resident set of this process so far, in bytes; None if the system does not state it."""
    try:
        status = (process / "status").read_text()
    except OSError:
        status = ""
    high_water_mark = re.search(r"^VmHWM:\s*(\d+) kB", status, re.MULTILINE)
    if high_water_mark is not None:
        return int(high_water_mark[1]) * 1024
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # macOS states bytes, other systems KiB.
    if sys.platform == "darwin":
        return peak
    return peak * 1024
