from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sentbed import _machine_resources as machine


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_and_cores_are_those_that_linux_tells():
    kibibytes, unit = fields_of("/proc/meminfo", "MemTotal")
    assert unit == "kB"
    assert machine.physical_memory() == int(kibibytes) * 1024

    cores = 0
    (allowed,) = fields_of("/proc/self/status", "Cpus_allowed_list")
    for part in allowed.split(","):
        first, _, last = part.partition("-")
        cores += int(last or first) - int(first) + 1
    assert machine.usable_cores() == cores


def fields_of(path, name):
    """Return the fields of the line with a name in a file of Linux."""
    for line in Path(path).read_text().splitlines():
        if line.startswith(f"{name}:"):
            return line.split()[1:]

    raise AssertionError(f"{path} has no line {name}")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_peak_of_the_process_that_started_this_one_is_not_counted():
    program = "from sentbed.helpers import peak_memory; print(peak_memory())"
    large = bytearray(os.urandom(2**20)) * 512
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, capture_output=True, text=True, check=True)

    peak = int(run.stdout)
    assert 2**22 < peak < len(large) < machine.peak_memory()
