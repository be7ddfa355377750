"""Columns of tables: what is measured, and how its numbers are printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import attrs
from sentbed.protocols import Direction

from sentbed_report.formatting import (
    count_text,
    duration,
    number,
    probability,
    share,
    signed,
)

AVERAGE = "AVG"
"""Task of an average, whether the evaluator gives it or it is computed here."""

Form: TypeAlias = Literal["number", "signed", "count", "p-value", "share", "duration"]
"""How the numbers of a column are printed."""


@attrs.frozen
class Column:
    """A column of numbers or of text."""

    task: str
    """The task, or what else the numbers are of."""
    metric: str = ""
    protocol: Mapping[str, Any] = attrs.field(factory=dict)
    """Protocol that all scores of the column share; empty for an average computed here."""
    direction: Direction = "none"
    part: str = ""
    """For an average over a part of the row: how many of its tasks, such as `5 of 7`; empty if over all."""
    cost: bool = False
    """Whether it says what encoders take: it is neither ranked nor tested."""
    heading: str = attrs.field()
    """What stands above the numbers; by default the task."""
    group: str = ""
    """What several columns side by side have in common, such as their evaluator."""
    form: Form = "number"
    digits: int = 2
    """Decimals to print."""
    reference: str = ""
    """Name of the row that others are compared with."""
    address: str = ""
    """Page of the items behind the numbers, relative to the report; empty without one."""

    @heading.default
    def _task_as_heading(self) -> str:
        return self.task

    @property
    def full_heading(self) -> str:
        """Its heading with that of its group."""
        return f"{self.group}: {self.heading}" if self.group else self.heading

    @property
    def task_and_part(self) -> str:
        """The task; an average over a part of the row is not that of another table, and says so."""
        return f"{self.task} ({self.part})" if self.part else self.task

    @property
    def average(self) -> bool:
        """Whether it is the average."""
        return self.task == AVERAGE

    @property
    def lower(self) -> bool:
        """Whether lower is better."""
        return self.direction == "lower"

    @property
    def ranked(self) -> bool:
        """Whether cells are ranked by it: higher or lower is better, and it is no cost."""
        return self.direction != "none" and not self.cost

    def text(self, value: float | None) -> str:
        """Return a number of the column for readers."""
        if value is None or self.form == "number":
            return number(value, self.digits)
        if self.form == "signed":
            return signed(value, self.digits)
        if self.form == "count":
            return count_text(value)
        if self.form == "p-value":
            return probability(value)
        if self.form == "share":
            return share(value)
        return duration(value)


def heading_of(column: Column, several_metrics: bool) -> str:
    """Return what stands above a score's column: its task, with the metric where columns differ in it."""
    if column.average:
        return f"Avg ({column.part})" if column.part else "Avg"
    return f"{column.task} ({column.metric})" if several_metrics else column.task
