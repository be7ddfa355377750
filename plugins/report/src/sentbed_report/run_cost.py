"""What a run took, as its report says it: the section `run-cost` of `report.json`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import attrs
from sentbed.protocols import START, ReportSection, Score

KEY = "run-cost"
"""Key of the section, and the evaluator that the scores of `cost_scores` name."""
OWN = "this run"
"""Column of what the run itself took; shared stages have a column each, under their directory's name."""

Amount: TypeAlias = float | None

_NOTE = (
    "Processor time is that of the process and of its children that have ended; device seconds are seconds "
    "times devices. Energy is that of the processors and their memory, in the run's share of the processor "
    "time in use, and of the run's GPUs. Peaks are those of the process and of a device."
)


def _sum(first: Amount, second: Amount) -> Amount:
    return None if first is None or second is None else first + second


def _peak(first: Amount, second: Amount) -> Amount:
    return None if first is None or second is None else max(first, second)


def _later(_: Amount, second: Amount) -> Amount:
    return second


def _kind(unit: str, join: Callable[[Amount, Amount], Amount] = _sum) -> dict[str, Any]:
    """Return the metadata of an amount; `join` is the amount of two parts, one after the other."""
    return {"unit": unit, "join": join}


@attrs.frozen
class RunCost:
    """What a run or a part of one took. None is what is not known, or what there is none of."""

    seconds: Amount = attrs.field(default=None, metadata=_kind("s"))
    """Duration."""
    processor_seconds: Amount = attrs.field(default=None, metadata=_kind("s"))
    """Processor time, user and system."""
    device_seconds: Amount = attrs.field(default=None, metadata=_kind("s"))
    """Duration times the devices that the run held, where they have memory of their own, as GPUs have."""
    energy: Amount = attrs.field(default=None, metadata=_kind("J"))
    """Energy of processors and devices, where the machine tells it of all that the run used."""
    memory: Amount = attrs.field(default=None, metadata=_kind("MiB", _peak))
    """Largest resident set of the process."""
    device_memory: Amount = attrs.field(default=None, metadata=_kind("MiB", _peak))
    """Most memory that was allocated on a device."""
    tokens: Amount = attrs.field(default=None, metadata=_kind("tokens"))
    """Tokens of all texts that training steps encoded, prompts included, without padding."""
    parameters: Amount = attrs.field(default=None, metadata=_kind("millions", _later))
    """Parameters of all encoders."""
    trained_parameters: Amount = attrs.field(default=None, metadata=_kind("millions", _later))
    """Those that some stage trains."""

    def __add__(self, other: RunCost) -> RunCost:
        """Return what both took, `other` after this: sums, the larger peak; unknown where a part is.

        Parameters are those of `other`.
        """
        return RunCost(
            **{
                field.name: field.metadata["join"](getattr(self, field.name), getattr(other, field.name))
                for field in attrs.fields(RunCost)
            }
        )

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> RunCost:
        """Return the cost that a table says; a name that is missing is not known.

        Raises:
            TypeError: for an amount that is no number.
        """
        amounts = {name: table.get(name) for name in UNITS}
        for name, amount in amounts.items():
            if amount is not None and type(amount) not in (int, float):
                raise TypeError(f"the amount `{name}` is {amount!r:.80}, expected a number")
        return cls(**amounts)


UNITS: Mapping[str, str] = {field.name: field.metadata["unit"] for field in attrs.fields(RunCost)}
"""Name of an amount -> its unit."""


@attrs.frozen
class RecordedCost:
    """Cost of a run, apart from that of the stages that it shares with other runs of a study."""

    own: RunCost
    shared: Mapping[str, RunCost] = attrs.field(factory=dict)
    """Run directory of shared stages that it goes on from -> what they took, the first stages first."""

    @property
    def alone(self) -> RunCost:
        """What the run would have taken without sharing: its own cost, and that of the shared stages."""
        return total([*self.shared.values(), self.own])

    def section(self) -> ReportSection:
        """Return the section of the report, without rows of which nothing is known."""
        parts = [self.own, *self.shared.values()]
        rows = (
            (name.replace("_", "-"), unit, *(_rounded(getattr(part, name)) for part in parts))
            for name, unit in UNITS.items()
            if any(getattr(part, name) is not None for part in parts)
        )
        columns = ("cost", "unit", OWN, *self.shared)
        return ReportSection(KEY, "What the run took", columns, tuple(rows), _NOTE)


def total(costs: Iterable[RunCost]) -> RunCost:
    """Return the sum of costs, of which there is at least one."""
    first, *others = costs
    for cost in others:
        first += cost
    return first


def _rounded(amount: Amount) -> Amount:
    return None if amount is None else round(amount, 3)


def recorded_cost(record: Mapping[str, Any]) -> RecordedCost | None:
    """Return the cost of a run from its `report.json`; None from a run without, as of earlier versions.

    Raises:
        KeyError, TypeError, ValueError: if the section is damaged.
    """
    section = record.get("sections", {}).get(KEY)
    if section is None:
        return None
    _, _, own, *shared = section["columns"]
    amounts: dict[str, dict[str, Amount]] = {name: {} for name in (own, *shared)}
    for row, _, *values in section["rows"]:
        for name, amount in zip(amounts, values, strict=True):
            amounts[name][row.replace("-", "_")] = None if amount is None else float(amount)
    found = {name: RunCost.of(table) for name, table in amounts.items()}
    return RecordedCost(found.pop(own), found)


def cost_scores(cost: RecordedCost | None, encoder: str) -> Iterator[Score]:
    """Yield the whole cost of a run as scores of an encoder, `run-seconds` and so on; none before training.

    Shared stages count in full, so that a cell's cost does not depend on the other cells of a study.
    """
    if cost is None or encoder.endswith(START):
        return
    alone = cost.alone
    for name, unit in UNITS.items():
        if (amount := getattr(alone, name)) is not None:
            yield Score(
                f"run-{name.replace('_', '-')}",
                unit,
                amount,
                {"encoder": {}, "evaluator": {"id": KEY}},
                encoder,
                KEY,
                direction="lower",
                axis="cost",
            )
