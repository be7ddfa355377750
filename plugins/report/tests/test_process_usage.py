from __future__ import annotations

import mmap
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sentbed_report.process_usage import PeakMemory, processor_seconds

MIB = 2**20
linux = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="only Linux has it in /proc"
)


def test_processor_time_is_that_of_the_process_and_of_children_that_ended():
    before, start = processor_seconds(), time.process_time()
    while time.process_time() - start < 0.2:
        pass

    assert 0.15 < processor_seconds() - before < 1
    before = processor_seconds()
    burn = "import time\nwhile time.process_time() < 0.4: pass"
    subprocess.run([sys.executable, "-S", "-c", burn], check=True)
    assert processor_seconds() - before > 0.35


@linux
def test_a_peak_is_that_of_its_run_and_not_of_an_earlier_one_in_the_process():
    memory = PeakMemory()
    memory.begin()
    # From the system, not from what the process has: earlier tests may have left that much free.
    with mmap.mmap(-1, 128 * MIB) as block:
        for _ in range(128):
            block.write(os.urandom(MIB))
        first = memory.read()
    memory.begin()
    second = memory.read()
    # Without a system that forgets, the second one has none of its own.
    assert second is None or second < first - 100 * MIB
