"""Processor time and peak memory of this process, as counted by the operating system."""

from __future__ import annotations

import os
from pathlib import Path

import attrs
from sentbed.helpers import peak_memory

CLEAR_REFS = Path("/proc/self/clear_refs")
"""File that resets the peak memory of this process if `5` is written to it; see `clear_refs` in proc(5)."""


def processor_seconds() -> float:
    """Return the processor time (user and system) of this process and its finished children, in seconds."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@attrs.define
class PeakMemory:
    """Largest resident set of this process since `begin`."""

    _earlier: int | None = None
    """Peak in bytes before `begin`, if the system cannot reset its counter; None if the counter was reset."""

    def begin(self) -> None:
        """Reset the system's peak if possible, as on Linux; if not, note the peak so far."""
        try:
            CLEAR_REFS.write_text("5")
        except OSError:
            self._earlier = peak_memory()
        else:
            self._earlier = None

    def read(self) -> int | None:
        """Return the peak since `begin` in bytes; None if it is unknown, as when an earlier peak was higher."""
        peak = peak_memory()
        if peak is None:
            return None
        # Without a reset, the system states the higher of two peaks: before `begin`, and since then.
        if self._earlier is not None and peak <= self._earlier:
            return None
        return peak
