"""What the system counts of this process and this machine: processor time, peak memory, energy."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs

PROC = Path("/proc")
POWERCAP = Path("/sys/class/powercap")
"""Where Linux shows the energy counters of processors (RAPL), a directory a domain."""
MICRO = 1e-6


def processor_seconds() -> float:
    """Return the seconds of processor time, user and system, of this process and its children that ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@attrs.define
class PeakMemory:
    """Largest resident set of this process since `begin`, in bytes."""

    process: Path = PROC / "self"
    _below: int | None = None

    def begin(self) -> None:
        """Forget earlier peaks, where the system can (Linux, proc(5) on `clear_refs`)."""
        try:
            (self.process / "clear_refs").write_text("5")
            self._below = None
        except OSError:
            self._below = self._peak()

    def read(self) -> int | None:
        """Return the peak; None where the system tells none, or only one of an earlier time."""
        peak = self._peak()
        return None if peak is None or (self._below is not None and peak <= self._below) else peak

    def _peak(self) -> int | None:
        with suppress(OSError):
            if found := re.search(r"^VmHWM:\s*(\d+) kB", (self.process / "status").read_text(), re.M):
                return int(found[1]) * 1024
        try:
            import resource
        except ImportError:  # Windows
            return None
        # macOS counts bytes, others KiB.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@attrs.define
class ProcessorEnergy:
    """Energy in joules of the machine's processors and their memory that a process has used.

    It is what the counters of RAPL (Linux `powercap`) say of packages and their DRAM, in the share that the
    process had of the processor time in use since the last look, so that runs at a time do not count it twice
    and an idle machine's energy is that of the only run on it. A counter begins anew at its `range`, after
    minutes at the earliest: `look` must be called more often. Without the processor time in use there is no
    share, and the energy is unknown.
    """

    root: Path = POWERCAP
    stat: Path = PROC / "stat"
    total: float | None = None
    """Joules until the last look; None where the machine does not tell, or not to this user."""
    _counts: Mapping[Path, int] = attrs.field(factory=dict)
    _busy: float | None = None
    _own: float = 0.0

    def begin(self, own: float) -> None:
        """Begin at zero; `own` is the processor time of the process until now, in seconds."""
        self._counts, self._busy, self._own = _microjoules(self.root), busy_seconds(self.stat), own
        self.total = 0.0 if self._counts and self._busy is not None else None

    def look(self, own: float) -> None:
        """Add what was used since the last look."""
        if self.total is None or self._busy is None:
            return
        counts, busy = _microjoules(self.root), busy_seconds(self.stat)
        used = _used(self._counts, counts)
        if used is None or busy is None:
            self.total = None
            return
        passed = busy - self._busy
        share = min(1.0, (own - self._own) / passed) if passed > 0 else 1.0
        self.total += MICRO * used * max(0.0, share)
        self._counts, self._busy, self._own = counts, busy, own


def _used(before: Mapping[Path, int], after: Mapping[Path, int]) -> int | None:
    """Return the microjoules between two looks; None if a counter is there no more, or began anew at a range
    that cannot be read.
    """
    if before.keys() != after.keys():
        return None
    used = 0
    for domain, count in after.items():
        used += count - before[domain]
        if count < before[domain]:
            try:
                used += int((domain / "max_energy_range_uj").read_text())
            except (OSError, ValueError):
                return None
    return used


def _microjoules(root: Path) -> dict[Path, int]:
    """Return the counter of each domain that no other one contains; empty if one cannot be read."""
    try:
        return {domain: int((domain / "energy_uj").read_text()) for domain in _domains(root)}
    except (OSError, ValueError):
        return {}


def _domains(root: Path) -> Iterator[Path]:
    """Yield packages and their DRAM, which is not in the package's counter.

    Cores and graphics are in that of their package, all packages in `psys`; `intel-rapl-mmio` counts the same
    packages another way.
    """
    for domain in sorted(root.glob("intel-rapl:*")):
        if (domain / "name").read_text().strip().startswith(("package", "dram")):
            yield domain


def busy_seconds(stat: Path = PROC / "stat") -> float | None:
    """Return the seconds in which the machine's cores were at work, by `/proc/stat`; None without it."""
    try:
        _, user, nice, system, _, _, irq, softirq, *_ = stat.read_text().splitlines()[0].split()
        return sum(map(int, (user, nice, system, irq, softirq))) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None


def device_joules(visible: str | None, nvml: Any = None) -> float | None:
    """Return the energy in joules that the GPUs of this process have used since their driver was loaded.

    `visible` is the value of `CUDA_VISIBLE_DEVICES`, `nvml` the module `pynvml` where it is installed. None
    without it, without a GPU or where one does not tell (before Volta).
    """
    if nvml is None:
        try:
            import pynvml as nvml  # type: ignore[import-not-found,no-redef]  # only where the user has it
        except ImportError:
            return None
    try:
        nvml.nvmlInit()
        handles = list(_handles(visible, nvml))
        # Millijoules.
        return sum(map(nvml.nvmlDeviceGetTotalEnergyConsumption, handles)) / 1000 if handles else None
    except nvml.NVMLError:
        return None


def _handles(visible: str | None, nvml: Any) -> Iterable[Any]:
    if visible is None:
        return map(nvml.nvmlDeviceGetHandleByIndex, range(nvml.nvmlDeviceGetCount()))
    names = [name.strip() for name in visible.split(",") if name.strip()]
    return [
        nvml.nvmlDeviceGetHandleByIndex(int(name)) if name.isdigit() else nvml.nvmlDeviceGetHandleByUUID(name)
        for name in names
    ]
