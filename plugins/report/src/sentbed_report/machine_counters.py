"""What the system counts of this process: processor time and peak memory."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import attrs

PROCESS = Path("/proc/self")
"""Where Linux describes this process."""


def processor_seconds() -> float:
    """Return the seconds of processor time, user and system, of this process and its children that ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@attrs.define
class PeakMemory:
    """Largest resident set of this process since `begin`, in bytes."""

    process: Path = PROCESS
    _earlier: int | None = None
    """Peak of an earlier time, which the system cannot forget."""

    def begin(self) -> None:
        """Forget earlier peaks, where the system can (Linux, proc(5) on `clear_refs`)."""
        try:
            (self.process / "clear_refs").write_text("5")
        except OSError:
            self._earlier = _peak(self.process)
        else:
            self._earlier = None

    def read(self) -> int | None:
        """Return the peak; None where the system has none, or only one of an earlier time."""
        peak = _peak(self.process)
        if peak is None:
            return None
        if self._earlier is not None and peak <= self._earlier:
            return None
        return peak


def _peak(process: Path) -> int | None:
    try:
        high_water_mark = re.search(
            r"^VmHWM:\s*(\d+) kB", (process / "status").read_text(), re.MULTILINE
        )
    except OSError:
        high_water_mark = None
    if high_water_mark is not None:
        return int(high_water_mark[1]) * 1024
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if sys.platform == "darwin":
        return peak
    return peak * 1024
