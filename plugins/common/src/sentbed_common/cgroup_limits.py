"""Limits on cores and memory that control groups set for this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sentbed.helpers import physical_memory

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
"""File that lists the process's control groups; exists only on Linux."""


def core_quota() -> float | None:
    """Return the smallest CPU quota, in cores, of the process's control group and its parents.

    None if no group has a quota.
    """
    quotas = []
    for group in _groups():
        words = _words(group / "cpu.max")
        # Where there is no quota, the first word is `max`.
        if words and words[0].isdecimal():
            quotas.append(int(words[0]) / int(words[1]))

    return min(quotas, default=None)


def memory_limit() -> int | None:
    """Return the smallest memory limit, in bytes, of the process's control group and its parents.

    None if no group has a limit below the machine's memory.
    """
    physical = physical_memory()
    limits = []
    for group in _groups():
        for word in _words(group / "memory.max"):
            if word.isdecimal() and (physical is None or int(word) < physical):
                limits.append(int(word))

    return min(limits, default=None)


def _groups() -> Iterator[Path]:
    """Yield the directories of this process's control group (version 2) and its parents.

    Some directories may not exist: in a container, /proc/self/cgroup may give the group's path on the host,
    while /sys/fs/cgroup is the container's group.
    """
    if not MEMBERSHIP.is_file():
        return

    for line in MEMBERSHIP.read_text().splitlines():
        hierarchy, _, path = line.split(":", 2)
        if hierarchy != "0":
            continue

        group = CGROUPS / path.lstrip("/")
        while group != CGROUPS and group != group.parent:
            yield group
            group = group.parent

        yield CGROUPS


def _words(path: Path) -> list[str]:
    """Return the words in a file; an empty list if it cannot be read."""
    try:
        return path.read_text().split()
    except OSError:
        return []
