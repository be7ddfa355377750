"""`RunCostRecorder`: the plugin that adds the cost of a run to its report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentbed import hookimpl
from sentbed.protocols import ReportSection, Run

KEY = "run-cost"
"""Key of the section in `report.json`."""

UNITS = {
    "devices": "devices",
    "device-memory": "MiB",
    "tokens": "tokens",
    "parameters": "millions",
}
"""Name of a cost -> its unit."""

_NOTE = "Tokens: encoded by training steps, with prompts and without padding. Memory: the peak on one device."


class RunCostRecorder:
    """Adds what a run took to its report."""

    @hookimpl
    def report_sections(self, run: Run) -> list[ReportSection]:
        """Return the section `run-cost`; an empty list if nothing is known yet."""
        rows = []
        for name, amount in _amounts(run.facts).items():
            rows.append((name, UNITS[name], round(amount, 3)))
        if not rows:
            return []
        columns = ("cost", "unit", "amount")
        return [ReportSection(KEY, "Cost", columns, tuple(rows), _NOTE)]


def _amounts(facts: Mapping[str, Any]) -> dict[str, float]:
    """Return the costs in the facts of a run, which a checkpoint has, too; unknown ones are left out."""
    amounts: dict[str, float] = {}
    devices = _devices(facts.get("engine", {}))
    if devices:
        amounts["devices"] = devices
    peak = facts.get("counters", {}).get("device_memory_gib")
    if peak is not None:
        amounts["device-memory"] = 1024 * peak
    if "trained_tokens" in facts:
        amounts["tokens"] = facts["trained_tokens"]
    counts = facts.get("parameters", {}).values()
    if counts and None not in counts:
        total = sum(parameters for parameters, _ in counts)
        amounts["parameters"] = total / 1e6
    return amounts


def _devices(engine: Mapping[str, Any]) -> int:
    """Return the number of devices other than the CPU, from an engine's description.

    The description is that of `Engine.describe`: PyTorch has one device per process and states its memory, JAX
    states its platform.
    """
    if engine.get("platform", "cpu") != "cpu":
        return int(engine.get("devices", 1))
    if "memory_gib" in engine:
        return int(engine.get("processes", 1))
    return 0
