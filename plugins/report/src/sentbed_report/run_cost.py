"""Cost of a run: time, memory, tokens, parameters; in `report.json`, the section `run-cost`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import attrs
from sentbed.protocols import START, ReportSection, Score

KEY = "run-cost"
"""Key of the section, and name of the evaluator of the scores that `cost_scores` yields."""

Amount: TypeAlias = float | None

_PEAKS = ("memory", "device_memory")
_PARAMETERS = ("parameters", "trained_parameters")

_NOTE = (
    "Processor time is that of the process and of its children that have ended; device seconds are seconds "
    "times devices. Peaks are those of the process and of a device."
)


@attrs.frozen
class RunCost:
    """Cost of a run, or of a part of a run. An amount is None if it is unknown, or does not apply to the run.

    A run that starts from shared stages has their cost, too, so that the cost of a cell does not depend on the
    other cells of a study.
    """

    seconds: Amount = attrs.field(default=None, metadata={"unit": "s"})
    """Duration in seconds."""
    processor_seconds: Amount = attrs.field(default=None, metadata={"unit": "s"})
    """Processor time, user and system, in seconds."""
    device_seconds: Amount = attrs.field(default=None, metadata={"unit": "s"})
    """Duration in seconds times number of devices, for devices with their own memory, such as GPUs."""
    memory: Amount = attrs.field(default=None, metadata={"unit": "MiB"})
    """Largest resident set of the process in MiB."""
    device_memory: Amount = attrs.field(default=None, metadata={"unit": "MiB"})
    """Peak of the allocated memory of a device in MiB."""
    tokens: Amount = attrs.field(default=None, metadata={"unit": "tokens"})
    """Number of tokens that training encoded, with prompts and without padding."""
    parameters: Amount = attrs.field(default=None, metadata={"unit": "millions"})
    """Number of parameters of all encoders, in millions."""
    trained_parameters: Amount = attrs.field(
        default=None, metadata={"unit": "millions"}
    )
    """Number of parameters that are trained in any stage, in millions."""

    def __add__(self, later: RunCost) -> RunCost:
        """Return the cost of both parts, one after the other: the sum of amounts, the larger of peaks.

        An amount is unknown if it is unknown for either part. The numbers of parameters are those of `later`.
        """
        amounts = attrs.asdict(later)
        for name, first in attrs.asdict(self).items():
            second = amounts[name]
            if name in _PARAMETERS:
                continue
            if first is None or second is None:
                amounts[name] = None
            elif name in _PEAKS:
                amounts[name] = max(first, second)
            else:
                amounts[name] = first + second
        return RunCost(**amounts)

    def section(self) -> ReportSection:
        """Return the section of the report; unknown amounts are left out."""
        rows = []
        for name, amount in attrs.asdict(self).items():
            if amount is not None:
                rows.append((_hyphens(name), UNITS[name], round(amount, 3)))
        columns = ("cost", "unit", "amount")
        return ReportSection(KEY, "Cost", columns, tuple(rows), _NOTE)


UNITS: Mapping[str, str] = {
    field.name: field.metadata["unit"] for field in attrs.fields(RunCost)
}
"""Name of an amount -> unit of the amount."""
NOTHING = RunCost(**dict.fromkeys(UNITS, 0))
"""Cost of no run: 0 in every amount. Sums of costs start with it."""


def _hyphens(name: str) -> str:
    return name.replace("_", "-")


def recorded_cost(record: Mapping[str, Any]) -> RunCost | None:
    """Return the cost of a run from its `report.json`; None if it has none.

    Raises:
        KeyError, TypeError, ValueError: if the section is damaged.
    """
    section = record.get("sections", {}).get(KEY)
    if section is None:
        return None
    amounts = {}
    for name, _, amount in section["rows"]:
        amounts[name.replace("-", "_")] = float(amount)
    return RunCost(**amounts)


def cost_scores(cost: RunCost | None, encoder: str) -> Iterator[Score]:
    """Yield the cost of a run as scores of an encoder after training; their tasks are `run-seconds` and so on."""
    if cost is None or encoder.endswith(START):
        return
    protocol = {"encoder": {}, "evaluator": {"id": KEY}}
    for name, amount in attrs.asdict(cost).items():
        if amount is not None:
            yield Score(
                task=f"run-{_hyphens(name)}",
                metric=UNITS[name],
                value=amount,
                protocol=protocol,
                encoder=encoder,
                evaluator=KEY,
                direction="lower",
                axis="cost",
            )
