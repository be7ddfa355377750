"""Limits of a control group on the cores and the memory that the process may use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sentbed.helpers import physical_memory

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
"""File that lists the process's control groups; exists only on Linux."""


def core_quota() -> float | None:
    """Return the control group's CPU quota in cores, or None if it has none."""
    quotas = []
    for group in _groups("cpu"):
        words = _words(group / "cpu.max") or [
            *_words(group / "cpu.cfs_quota_us"),
            *_words(group / "cpu.cfs_period_us"),
        ]
        # Without a quota, cgroup v2 has `max` and v1 -1.
        if len(words) == 2 and words[0].isdecimal():
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def memory_limit() -> int | None:
    """Return the control group's memory limit in bytes, or None if it has none."""
    physical = physical_memory()
    words = [
        word
        for group in _groups("memory")
        for word in (
            *_words(group / "memory.max"),
            *_words(group / "memory.limit_in_bytes"),
        )
    ]
    # Without a limit, cgroup v2 has `max` and v1 a number larger than any memory.
    limits = [int(word) for word in words if word.isdecimal()]
    return min(
        (limit for limit in limits if physical is None or limit < physical),
        default=None,
    )


def _groups(controller: str) -> Iterator[Path]:
    """Yield the directories of this process's control group and its parents.

    In a container the path may be the host's, while the root is the container's own group.
    """
    for line in MEMBERSHIP.read_text().splitlines() if MEMBERSHIP.is_file() else ():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        base = CGROUPS / controller if controllers else CGROUPS
        group = base / path.lstrip("/")
        while group != base and group != group.parent:
            yield group
            group = group.parent
        yield base


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
