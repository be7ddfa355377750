"""The plugin that follows a run to say what it took."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

import attrs
from sentbed import RunError, hookimpl
from sentbed.helpers import foreign
from sentbed.protocols import ReportSection, Run

from sentbed_report.machine_counters import PeakMemory, ProcessorEnergy, device_joules, processor_seconds
from sentbed_report.run_cost import KEY, RecordedCost, RunCost

PAUSE = 10.0
"""Seconds between two looks at the energy counters, at least."""
MIB = 2**20


class RunCostRecorder:
    """Adds up the cost of a run from its parts: a run that was stopped goes on from its last checkpoint.

    What was computed after that checkpoint and is computed again is not in it, as in the run's `seconds`.
    """

    sentbed_api = "2.0"

    def __init__(self, energy: ProcessorEnergy | None = None) -> None:
        self._memory, self._energy = PeakMemory(), energy or ProcessorEnergy()
        self._clock: float | None = None
        self._processor = self._looked = 0.0
        self._device: float | None = None
        self._before: RunCost | None = None
        self._shared: dict[str, RunCost] = {}

    @hookimpl
    def run_started(self) -> None:
        """Begin at zero."""
        self._begin(None, {})

    @hookimpl
    def run_resumed(self, run: Run, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Begin with what the checkpoint says; of shared stages it is another run's cost.

        A checkpoint without it, as of earlier versions, leaves what was before unknown, and so every sum with
        it. Where there is no checkpoint at all, nothing was before.
        """
        state, source = states.get(KEY), run.facts.get("went_on_from")
        if not states:
            self._begin(None, {})
            return
        if state is None:
            # A run that has branched goes on from one place until it has a checkpoint of its own.
            places = run.facts.get("resumed", [])
            branches, before, shared = source is not None and places[:1] == places[-1:], RunCost(), {}
        else:
            branches = source is not None and source != state["source"]
            with foreign(RunError, "the cost in the state of the run is damaged", "start a new run"):
                before = RunCost.of(state["own"])
                shared = {name: RunCost.of(table) for name, table in state["shared"].items()}
        if source is not None and (branches or state is None):
            # The checkpoint, or an earlier one, was written by the run that this one branches from.
            shared[source] = before
        self._begin(None if branches else before, shared)

    @hookimpl
    def step_finished(self) -> None:
        """Look at the energy counters, which begin anew now and then."""
        self._look()

    @hookimpl
    def evaluation_progressed(self) -> None:
        """Look at the energy counters."""
        self._look()

    @hookimpl
    def tracker_state(self, run: Run) -> tuple[str, Mapping[str, Any]] | None:
        """Return the cost so far; None of a run that has not begun."""
        found = self._recorded(run)
        if found is None:
            return None
        shared = {name: attrs.asdict(cost) for name, cost in found.shared.items()}
        return KEY, {
            "own": attrs.asdict(found.own),
            "shared": shared,
            "source": run.facts.get("went_on_from"),
        }

    @hookimpl
    def report_sections(self, run: Run) -> list[ReportSection]:
        """Return the section `run-cost`; none of a run that has not begun."""
        found = self._recorded(run)
        return [] if found is None else [found.section()]

    @hookimpl
    def run_finished(self) -> None:
        """Forget the run, whose cost is not that of one that fails before it begins."""
        self._clock = None

    @hookimpl
    def run_failed(self) -> None:
        """Forget the run."""
        self._clock = None

    def _begin(self, before: RunCost | None, shared: dict[str, RunCost]) -> None:
        self._before, self._shared = before, shared
        self._clock = self._looked = time.monotonic()
        self._processor = processor_seconds()
        self._memory.begin()
        self._energy.begin(self._processor)
        self._device = device_joules(os.environ.get("CUDA_VISIBLE_DEVICES"))

    def _look(self) -> None:
        if self._clock is not None and (now := time.monotonic()) - self._looked >= PAUSE:
            self._looked = now
            self._energy.look(processor_seconds())

    def _recorded(self, run: Run) -> RecordedCost | None:
        if self._clock is None:
            return None
        now = self._now(run, time.monotonic() - self._clock)
        return RecordedCost(now if self._before is None else self._before + now, self._shared)

    def _now(self, run: Run, seconds: float) -> RunCost:
        """Return what was taken since this part of the run began, `seconds` ago."""
        processor = processor_seconds()
        self._energy.look(processor)
        engine, counters = run.facts.get("engine", {}), run.facts.get("counters", {})
        held, devices = counters.get("device_memory_gib"), _devices(engine)
        peak = self._memory.read()
        # Those of the whole run, of which earlier parts have theirs.
        earlier = [one.tokens for one in (*self._shared.values(), self._before) if one is not None]
        tokens = [one for one in earlier if one is not None]
        return RunCost(
            seconds,
            processor - self._processor,
            None if devices is None else seconds * devices,
            self._joules(devices is not None),
            None if peak is None else peak / MIB,
            None if held is None else held * 1024,
            run.facts.get("trained_tokens", 0) - sum(tokens) if len(tokens) == len(earlier) else None,
            *_millions(run),
        )

    def _joules(self, on_device: bool) -> float | None:
        """Return the energy of processors and, of a run on a device, its GPUs; None if a part is unknown."""
        processors = self._energy.total
        if not on_device or processors is None:
            return processors
        devices = device_joules(os.environ.get("CUDA_VISIBLE_DEVICES"))
        return None if devices is None or self._device is None else processors + devices - self._device


def _devices(engine: Mapping[str, Any]) -> int | None:
    """Return the number of devices beside the processor that an engine holds, by `Engine.describe`, or None.

    PyTorch has one a process, and says its memory; JAX says its platform.
    """
    if engine.get("platform", "cpu") != "cpu":
        return int(engine.get("devices", 1))
    return int(engine.get("processes", 1)) if "memory_gib" in engine else None


def _millions(run: Run) -> tuple[float | None, float | None]:
    """Return the parameters of all encoders and those that some stage trains, in millions."""
    counts = run.facts.get("parameters") or {}
    if not counts or None in counts.values():
        return None, None
    trained = {name for stage in run.recipe.stage for name in run.recipe.trained(stage)}
    millions = sum(every for every, _ in counts.values()) / 1e6
    return millions, sum(counts[name][1] for name in trained) / 1e6
