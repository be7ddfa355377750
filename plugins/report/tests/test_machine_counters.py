"""Counters of the machine: against the system's other ways to count, and on directories like Linux's."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from sentbed_report.machine_counters import (
    PeakMemory,
    ProcessorEnergy,
    busy_seconds,
    device_joules,
    processor_seconds,
)

MIB = 2**20
linux = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells it in /proc")


def test_processor_time_is_that_of_the_process_and_of_children_that_ended() -> None:
    before, own = processor_seconds(), time.process_time()
    while time.process_time() - own < 0.2:
        pass
    assert 0.15 < processor_seconds() - before < 1
    before = processor_seconds()
    burn = "import time\nwhile time.process_time() < 0.4: pass"
    subprocess.run([sys.executable, "-S", "-c", burn], check=True)
    assert processor_seconds() - before > 0.35


@linux
def test_a_peak_is_that_of_its_run_and_not_of_an_earlier_one_in_the_process() -> None:
    memory = PeakMemory()
    memory.begin()
    # From the system, not from what the process has: earlier tests may have left that much free.
    with mmap.mmap(-1, 128 * MIB) as held:
        for _ in range(128):
            held.write(os.urandom(MIB))
        first = memory.read()
    memory.begin()
    second = memory.read()
    assert first is not None
    # Without a system that forgets, the second one has none of its own.
    assert second is None or second < first - 100 * MIB


def test_without_a_way_to_forget_only_a_larger_peak_is_known(tmp_path: Path) -> None:
    (tmp_path / "clear_refs").mkdir()
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nVmHWM:\t    1000 kB\nVmRSS:\t 900 kB\n")
    memory = PeakMemory(tmp_path)
    memory.begin()
    assert memory.read() is None
    status.write_text("VmHWM:\t    1500 kB\n")
    assert memory.read() == 1500 * 1024


@pytest.fixture
def machine(tmp_path: Path) -> Callable[..., ProcessorEnergy]:
    """Write counters in µJ by domain, and the seconds in which cores were at work."""

    def write(busy: float, counts: Mapping[str, int | str], names: Mapping[str, str]) -> ProcessorEnergy:
        for domain, count in counts.items():
            place = tmp_path / "powercap" / domain
            place.mkdir(parents=True, exist_ok=True)
            (place / "energy_uj").write_text(f"{count}\n")
            (place / "max_energy_range_uj").write_text("1000000000\n")
            (place / "name").write_text(f"{names[domain]}\n")
        ticks = round(busy * os.sysconf("SC_CLK_TCK"))
        (tmp_path / "stat").write_text(f"cpu  {ticks} 0 0 999 5 0 0 3 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
        return ProcessorEnergy(tmp_path / "powercap", tmp_path / "stat")

    return write


NAMES = {
    "intel-rapl:0": "package-0",
    "intel-rapl:0:0": "core",
    "intel-rapl:0:1": "dram",
    "intel-rapl:1": "package-1",
    "intel-rapl:2": "psys",
    "intel-rapl-mmio:0": "package-0",
}


def test_energy_is_that_of_packages_and_their_memory_in_the_share_of_the_time_in_use(
    machine: Callable[..., ProcessorEnergy],
) -> None:
    counts = dict.fromkeys(NAMES, 1_000_000)
    energy = machine(100.0, counts, NAMES)
    energy.begin(own=7.0)
    assert energy.total == 0
    # 60 J and 20 J of packages and 10 J of memory; cores, platform and the second way are in these.
    more = dict(
        zip(NAMES, (61_000_000, 41_000_000, 11_000_000, 21_000_000, 99_000_000, 61_000_000), strict=True)
    )
    machine(110.0, more, NAMES)
    energy.look(own=12.0)
    assert energy.total == pytest.approx(90 * 5 / 10)
    # The run alone used the processor; ticks are coarser than the time of a process.
    machine(112.0, {**more, "intel-rapl:1": 29_000_000}, NAMES)
    energy.look(own=14.02)
    assert energy.total == pytest.approx(45 + 8)


def test_a_counter_that_began_anew_goes_on(machine: Callable[..., ProcessorEnergy]) -> None:
    names = {"intel-rapl:0": "package-0"}
    energy = machine(1.0, {"intel-rapl:0": 990_000_000}, names)
    energy.begin(own=1.0)
    machine(2.0, {"intel-rapl:0": 15_000_000}, names)
    energy.look(own=2.0)
    assert energy.total == pytest.approx(25.0)


@pytest.mark.parametrize("wrong", ["", "many"], ids=["not for this user", "no number"])
def test_energy_is_unknown_where_a_counter_cannot_be_read(
    wrong: str, machine: Callable[..., ProcessorEnergy], tmp_path: Path
) -> None:
    nothing = ProcessorEnergy(tmp_path / "none", tmp_path / "stat")
    nothing.begin(own=1.0)
    nothing.look(own=2.0)
    assert nothing.total is None
    counts = {"intel-rapl:0": 5_000_000, "intel-rapl:1": 5_000_000}
    energy = machine(1.0, {**counts, "intel-rapl:1": wrong}, NAMES)
    energy.begin(own=1.0)
    assert energy.total is None
    # One that can be read no more leaves a part unknown, and so the whole.
    energy = machine(1.0, counts, NAMES)
    energy.begin(own=1.0)
    machine(2.0, {"intel-rapl:1": wrong}, NAMES)
    energy.look(own=2.0)
    assert energy.total is None


@pytest.mark.parametrize("lost", ["stat", "powercap/intel-rapl:0/max_energy_range_uj"])
def test_energy_is_unknown_without_the_time_in_use_or_the_range_of_a_counter_that_began_anew(
    lost: str, machine: Callable[..., ProcessorEnergy], tmp_path: Path
) -> None:
    energy = machine(1.0, {"intel-rapl:0": 990_000_000}, NAMES)
    energy.begin(own=1.0)
    machine(2.0, {"intel-rapl:0": 15_000_000}, NAMES)
    (tmp_path / lost).unlink()
    energy.look(own=2.0)
    assert energy.total is None
    energy.look(own=3.0)
    assert energy.total is None


def test_energy_is_unknown_where_the_time_in_use_is_not_told_from_the_beginning(
    machine: Callable[..., ProcessorEnergy], tmp_path: Path
) -> None:
    energy = machine(1.0, {"intel-rapl:0": 1_000_000}, NAMES)
    (tmp_path / "stat").unlink()
    energy.begin(own=1.0)
    assert energy.total is None
    machine(2.0, {"intel-rapl:0": 15_000_000}, NAMES)
    energy.look(own=2.0)
    assert energy.total is None


@linux
def test_the_machine_was_at_work_at_least_as_long_as_this_process() -> None:
    before, own = busy_seconds(), time.process_time()
    while time.process_time() - own < 0.3:
        pass
    after = busy_seconds()
    assert before is not None
    assert after is not None
    assert after - before > 0.2
    assert busy_seconds(Path("/proc/none")) is None


class Nvml:
    """The functions of `pynvml` that are used, for two GPUs."""

    class NVMLError(Exception):
        pass

    def __init__(self, millijoules: Mapping[str, int], fails: bool = False) -> None:
        self.millijoules, self.fails = millijoules, fails

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's names
        if self.fails:
            raise self.NVMLError("driver not loaded")

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.millijoules)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        return [*self.millijoules][index]

    def nvmlDeviceGetHandleByUUID(self, name: str) -> str:  # noqa: N802
        return name

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:  # noqa: N802
        return self.millijoules[handle]


@pytest.mark.parametrize(
    ("visible", "joules"),
    [(None, 5.0), ("1", 2.0), ("GPU-a", 3.0), ("GPU-b, 0", 5.0), ("", None)],
)
def test_energy_of_gpus_is_that_of_those_that_the_process_sees(
    visible: str | None, joules: float | None
) -> None:
    assert device_joules(visible, Nvml({"GPU-a": 3000, "GPU-b": 2000})) == joules
    assert device_joules(visible, Nvml({"GPU-a": 3000, "GPU-b": 2000}, fails=True)) is None
