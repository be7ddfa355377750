"""What a run took, as its report has it: the section `run-cost` of `report.json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import attrs
from sentbed.protocols import START, ReportSection, Score

KEY = "run-cost"
"""Key of the section, and the evaluator that the scores of `cost_scores` name."""
OWN = "this run"
"""Column of what the run itself took; shared stages have a column each, under their directory's name."""

Amount: TypeAlias = float | None

_PEAKS = ("memory", "device_memory")
_PARAMETERS = ("parameters", "trained_parameters")

_NOTE = (
    "Processor time is that of the process and of its children that have ended; device seconds are seconds "
    "times devices. Peaks are those of the process and of a device."
)


@attrs.frozen
class RunCost:
    """What a run or a part of one took. None is what is not known, or what there is none of."""

    seconds: Amount = attrs.field(default=None, metadata={"unit": "s"})
    """Duration."""
    processor_seconds: Amount = attrs.field(default=None, metadata={"unit": "s"})
    """Processor time, user and system."""
    device_seconds: Amount = attrs.field(default=None, metadata={"unit": "s"})
    """Duration times the devices that the run held, where they have memory of their own, as GPUs have."""
    memory: Amount = attrs.field(default=None, metadata={"unit": "MiB"})
    """Largest resident set of the process."""
    device_memory: Amount = attrs.field(default=None, metadata={"unit": "MiB"})
    """Most memory that was allocated on a device."""
    tokens: Amount = attrs.field(default=None, metadata={"unit": "tokens"})
    """Tokens of all texts that training steps encoded, prompts included, without padding."""
    parameters: Amount = attrs.field(default=None, metadata={"unit": "millions"})
    """Parameters of all encoders."""
    trained_parameters: Amount = attrs.field(
        default=None, metadata={"unit": "millions"}
    )
    """Those that some stage trains."""

    def __add__(self, later: RunCost) -> RunCost:
        """Return what both took, one after the other: sums, the larger peak; unknown where a part is.

        Parameters are those of `later`.
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

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> RunCost:
        """Return the cost in a table of a state; an amount that is missing is not known.

        Raises:
            TypeError: for an amount that is no number.
        """
        amounts = {name: table.get(name) for name in UNITS}
        for name, amount in amounts.items():
            if amount is not None and type(amount) not in (int, float):
                raise TypeError(
                    f"the amount `{name}` is {amount!r:.80}, expected a number"
                )
        return cls(**amounts)


UNITS: Mapping[str, str] = {
    field.name: field.metadata["unit"] for field in attrs.fields(RunCost)
}
"""Name of an amount -> its unit."""
NOTHING = RunCost(**dict.fromkeys(UNITS, 0))
"""Cost to begin a sum with."""


@attrs.frozen
class RecordedCost:
    """Cost of a run, apart from that of the stages that it shares with other runs of a study."""

    own: RunCost
    shared: Mapping[str, RunCost] = attrs.field(factory=dict)
    """Run directory of shared stages that it goes on from -> what they took, the first stages first."""

    @property
    def alone(self) -> RunCost:
        """What the run would have taken without sharing: its own cost, and that of the shared stages."""
        return sum([*self.shared.values(), self.own], start=NOTHING)

    def section(self) -> ReportSection:
        """Return the section of the report, without rows of which nothing is known."""
        parts = [self.own, *self.shared.values()]
        rows = []
        for name, unit in UNITS.items():
            amounts = [getattr(part, name) for part in parts]
            if any(amount is not None for amount in amounts):
                rows.append((_hyphens(name), unit, *map(_rounded, amounts)))
        columns = ("cost", "unit", OWN, *self.shared)
        return ReportSection(KEY, "What the run took", columns, tuple(rows), _NOTE)


def _hyphens(name: str) -> str:
    return name.replace("_", "-")


def _rounded(amount: Amount) -> Amount:
    return None if amount is None else round(amount, 3)


def recorded_cost(record: Mapping[str, Any]) -> RecordedCost | None:
    """Return the cost of a run from its `report.json`; None from a run without, as of earlier versions.

    A row that is no amount of `RunCost` is left out, as `energy` of earlier versions.

    Raises:
        KeyError, TypeError, ValueError: if the section is damaged.
    """
    section = record.get("sections", {}).get(KEY)
    if section is None:
        return None
    _, _, *parts = section["columns"]
    tables: dict[str, dict[str, Amount]] = {part: {} for part in parts}
    for row, _, *amounts in section["rows"]:
        for part, amount in zip(parts, amounts, strict=True):
            tables[part][row.replace("-", "_")] = (
                None if amount is None else float(amount)
            )
    unshared, *shared = parts
    return RecordedCost(
        RunCost.of(tables[unshared]),
        {part: RunCost.of(tables[part]) for part in shared},
    )


def cost_scores(cost: RecordedCost | None, encoder: str) -> Iterator[Score]:
    """Yield the whole cost of a run as scores of an encoder, `run-seconds` and so on; none before training.

    Shared stages count in full, so that a cell's cost does not depend on the other cells of a study.
    """
    if cost is None or encoder.endswith(START):
        return
    protocol = {"encoder": {}, "evaluator": {"id": KEY}}
    for name, amount in attrs.asdict(cost.alone).items():
        if amount is not None:
            task = f"run-{_hyphens(name)}"
            yield Score(
                task,
                UNITS[name],
                amount,
                protocol,
                encoder,
                KEY,
                direction="lower",
                axis="cost",
            )
