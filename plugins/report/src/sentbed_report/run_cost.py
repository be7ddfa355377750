"""Cost of a run: time, memory, tokens, parameters; in `report.json`, the section `run-cost`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import attrs
from sentbed.protocols import START, ReportSection, Score

KEY = "run-cost"
"""Key of the section, and name of the evaluator of the scores that `cost_scores` yields."""
OWN = "this run"
"""Name of the column with the cost of the run itself. Each shared stage has a column with the name of its
directory."""

Amount: TypeAlias = float | None

_PEAKS = ("memory", "device_memory")
_PARAMETERS = ("parameters", "trained_parameters")

_NOTE = (
    "Processor time is that of the process and of its children that have ended; device seconds are seconds "
    "times devices. Peaks are those of the process and of a device."
)


@attrs.frozen
class RunCost:
    """Cost of a run, or of a part of a run. An amount is None if it is unknown, or does not apply to the run."""

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


UNITS: Mapping[str, str] = {
    field.name: field.metadata["unit"] for field in attrs.fields(RunCost)
}
"""Name of an amount -> unit of the amount."""
NOTHING = RunCost(**dict.fromkeys(UNITS, 0))
"""Cost of no run: 0 in every amount. Sums of costs start with it."""


@attrs.frozen
class RecordedCost:
    """Cost of a run, and separately of the stages that it shares with other runs of a study."""

    own: RunCost
    shared: Mapping[str, RunCost] = attrs.field(factory=dict)
    """Run directory of the shared stages from which the run started -> their cost, in the order of training."""

    @property
    def alone(self) -> RunCost:
        """Cost of the run if it had trained all stages itself: its own cost plus that of the shared stages."""
        return sum([*self.shared.values(), self.own], start=NOTHING)

    def section(self) -> ReportSection:
        """Return the section of the report; amounts that are unknown for all parts are left out."""
        parts = [self.own, *self.shared.values()]
        rows = []
        for name, unit in UNITS.items():
            amounts = []
            for part in parts:
                amount = getattr(part, name)
                if amount is not None:
                    amount = round(amount, 3)
                amounts.append(amount)
            if any(amount is not None for amount in amounts):
                rows.append((_hyphens(name), unit, *amounts))

        columns = ("cost", "unit", OWN, *self.shared)
        return ReportSection(KEY, "Cost", columns, tuple(rows), _NOTE)


def _hyphens(name: str) -> str:
    return name.replace("_", "-")


def recorded_cost(record: Mapping[str, Any]) -> RecordedCost | None:
    """Return the cost of a run from its `report.json`; None if it has none.

    Raises:
        KeyError, TypeError, ValueError: if the section is damaged.
    """
    section = record.get("sections", {}).get(KEY)
    if section is None:
        return None
    _, _, *parts = section["columns"]
    tables: list[dict[str, Amount]] = [{} for _ in parts]
    for row, _, *amounts in section["rows"]:
        for table, amount in zip(tables, amounts, strict=True):
            if amount is not None:
                table[row.replace("-", "_")] = float(amount)
    own, *shared = [RunCost(**table) for table in tables]
    return RecordedCost(own, dict(zip(parts[1:], shared, strict=True)))


def cost_scores(cost: RecordedCost | None, encoder: str) -> Iterator[Score]:
    """Yield the cost of a run as scores of an encoder after training; their tasks are `run-seconds` and so on.

    The cost of shared stages is included in full, so that a cell's cost does not depend on the other cells of a
    study.
    """
    if cost is None or encoder.endswith(START):
        return
    protocol = {"encoder": {}, "evaluator": {"id": KEY}}
    for name, amount in attrs.asdict(cost.alone).items():
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
