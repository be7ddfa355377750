from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from sentbed import _machine_resources as machine


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_and_cores_are_those_that_linux_tells():
    total = next(
        line
        for line in Path("/proc/meminfo").read_text().splitlines()
        if "MemTotal" in line
    )
    assert machine.physical_memory() == int(total.split()[1]) * 1024
    status = Path("/proc/self/status").read_text().splitlines()
    listed = next(
        line for line in status if line.startswith("Cpus_allowed_list")
    ).split()[1]
    ends = [[int(end) for end in part.split("-")] for part in listed.split(",")]
    assert machine.usable_cores() == sum(end[-1] - end[0] + 1 for end in ends)


def test_cores_are_all_of_them_where_the_system_does_not_say_which(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert machine.usable_cores() == os.cpu_count()
