"""Cost of a run: a section of its report; in a study, the costs and seconds of runs are scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sentbed import hookimpl
from sentbed.protocols import START, ReportSection, Run, Score

KEY = "run-cost"
"""Key of the section in `report.json`, and name of the evaluator of the scores that `cost_scores` yields."""

UNITS = {
    "seconds": "s",
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


def cost_scores(record: Mapping[str, Any], scores: Iterable[Score]) -> Iterator[Score]:
    """Yield the cost of a run as scores of its encoders after training; the tasks are `run-seconds` and so on.

    `record` is the `report.json` of the run, `scores` are its scores.

    Raises:
        KeyError, TypeError, ValueError: if the section of the cost is damaged.
    """
    section = record.get("sections", {}).get(KEY)
    if section is None:
        return
    amounts = {"seconds": float(record["seconds"])}
    for name, _, amount in section["rows"]:
        amounts[name] = float(amount)

    protocol = {"encoder": {}, "evaluator": {"id": KEY}}
    for encoder in dict.fromkeys(score.encoder for score in scores):
        if encoder.endswith(START):
            continue
        for name, amount in amounts.items():
            yield Score(
                task=f"run-{name}",
                metric=UNITS[name],
                value=amount,
                protocol=protocol,
                encoder=encoder,
                evaluator=KEY,
                direction="lower",
                axis="cost",
            )
