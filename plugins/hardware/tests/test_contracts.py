"""The runtime `cpu` keeps its contract; the engine suite has the others of this repository."""

from __future__ import annotations

from sentbed_hardware.cpu import Cpu
from sentbed_testing import RuntimeContract


class TestCpu(RuntimeContract):
    component = Cpu(threads=1)
