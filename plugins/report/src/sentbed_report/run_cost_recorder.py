"""`RunCostRecorder`: the plugin that measures the cost of a run while the run goes on."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import attrs
from sentbed import hookimpl
from sentbed.protocols import ReportSection, Run

from sentbed_report.process_usage import PeakMemory, processor_seconds
from sentbed_report.run_cost import KEY, NOTHING, Amount, RunCost

MIB = 2**20


class RunCostRecorder:
    """Adds up the cost of a run. Several processes may work on it in turn, each from the last checkpoint.

    If a process is interrupted, the next process repeats the work after the last checkpoint. This work is
    counted once, as in the run's `seconds`.
    """

    def __init__(self) -> None:
        self._memory = PeakMemory()
        self._processor = 0.0
        self._tokens = 0
        self._clock: float | None = None
        """Time at which this process began or continued the run; None if no run is in progress."""
        self._before = NOTHING
        """Cost of the run in earlier processes, and of the shared stages from which it started."""

    @hookimpl
    def run_started(self, run: Run) -> None:
        """Start with a cost of zero."""
        self._begin(run, NOTHING)

    @hookimpl
    def run_resumed(self, run: Run, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Start with the cost in the checkpoint; without a checkpoint, start with a cost of zero.

        If the checkpoint has no cost, the cost of the run is unknown.
        """
        if not states:
            self._begin(run, NOTHING)
        elif KEY in states:
            self._begin(run, RunCost(**states[KEY]))
        else:
            self._clock = None

    @hookimpl
    def tracker_state(self, run: Run) -> tuple[str, Mapping[str, Any]] | None:
        """Return the cost so far, for the checkpoint; None if no run is in progress."""
        cost = self._cost(run)
        if cost is None:
            return None
        return KEY, attrs.asdict(cost)

    @hookimpl
    def report_sections(self, run: Run) -> list[ReportSection]:
        """Return the section `run-cost`; an empty list if no run is in progress."""
        cost = self._cost(run)
        if cost is None:
            return []
        return [cost.section()]

    @hookimpl
    def run_finished(self) -> None:
        """Forget the run; otherwise a later run that fails before it begins would report its cost."""
        self._clock = None

    @hookimpl
    def run_failed(self) -> None:
        """Forget the run."""
        self._clock = None

    def _begin(self, run: Run, before: RunCost) -> None:
        self._before = before
        self._clock = time.monotonic()
        self._processor = processor_seconds()
        self._tokens = _trained_tokens(run)
        self._memory.begin()

    def _cost(self, run: Run) -> RunCost | None:
        if self._clock is None:
            return None
        part = self._cost_of_this_part(run, time.monotonic() - self._clock)
        return self._before + part

    def _cost_of_this_part(self, run: Run, seconds: float) -> RunCost:
        """Return the cost since this process began or continued the run, `seconds` ago."""
        devices = _devices(run.facts.get("engine", {}))
        device_gib = run.facts.get("counters", {}).get("device_memory_gib")
        peak = self._memory.read()
        parameters, trained_parameters = _millions_of_parameters(run)
        return RunCost(
            seconds=seconds,
            processor_seconds=processor_seconds() - self._processor,
            device_seconds=_times(devices, seconds),
            memory=_times(peak, 1 / MIB),
            device_memory=_times(device_gib, 1024),
            tokens=_trained_tokens(run) - self._tokens,
            parameters=parameters,
            trained_parameters=trained_parameters,
        )


def _trained_tokens(run: Run) -> int:
    """Return the number of tokens on which the run has trained, in all processes together."""
    tokens: int = run.facts.get("trained_tokens", 0)
    return tokens


def _times(amount: float | None, factor: float) -> float | None:
    if amount is None:
        return None
    return amount * factor


def _devices(engine: Mapping[str, Any]) -> int | None:
    """Return the number of devices other than the CPU, from an engine's description; None if there are none.

    The description is that of `Engine.describe`: PyTorch has one device per process and states its memory, JAX
    states its platform.
    """
    if engine.get("platform", "cpu") != "cpu":
        return int(engine.get("devices", 1))
    if "memory_gib" in engine:
        return int(engine.get("processes", 1))
    return None


def _millions_of_parameters(run: Run) -> tuple[Amount, Amount]:
    """Return the numbers of parameters of all encoders, and of those that any stage trains, in millions."""
    counts = run.facts.get("parameters") or {}
    if not counts or None in counts.values():
        return None, None
    trained: set[str] = set()
    for stage in run.recipe.stage:
        trained.update(run.recipe.trained(stage))
    parameters = sum(all_parameters for all_parameters, _ in counts.values())
    trained_parameters = 0
    for name in trained:
        _, trainable_parameters = counts[name]
        trained_parameters += trainable_parameters
    return parameters / 1e6, trained_parameters / 1e6
