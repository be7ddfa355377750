from __future__ import annotations

import os
import subprocess
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


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_peak_of_the_process_that_started_this_one_is_not_counted():
    program = "from sentbed.helpers import peak_memory; print(peak_memory())"
    large = bytearray(os.urandom(2**20)) * 512
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 2**22 < int(run.stdout) < len(large) < machine.peak_memory()
