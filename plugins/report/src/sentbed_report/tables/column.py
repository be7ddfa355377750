"""`Column` of a table: task, metric and protocol of its numbers, and how they are printed."""

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
"""Name of the average as a task, whether the evaluator reports it or it is computed here."""

Form: TypeAlias = Literal["number", "signed", "count", "p-value", "share", "duration"]
"""How the numbers of a column are printed."""


@attrs.frozen
class Column:
    """A column of numbers or of text."""

    task: str
    """Task, or another name of what the numbers measure."""
    metric: str = ""
    protocol: Mapping[str, Any] = attrs.field(factory=dict)
    """Protocol that all scores of the column share; empty for an average computed here."""
    direction: Direction = "none"
    part: str = ""
    """Number of averaged tasks if tasks are missing, such as `5 of 7`; else empty."""
    cost: bool = False
    """Whether it is a cost of encoders, such as time or memory, which is neither ranked nor tested."""
    heading: str = attrs.field()
    """Heading; by default the task."""
    group: str = ""
    """Common heading of several adjacent columns, such as their evaluator."""
    form: Form = "number"
    digits: int = 2
    """Decimals to print."""
    reference: str = ""
    """Name of the row that others are compared with."""
    address: str = ""
    """Address of the page of its items, relative to the report; empty if there is none."""

    @heading.default
    def _task_as_heading(self) -> str:
        return self.task

    @property
    def full_heading(self) -> str:
        """Heading of its group and its own heading."""
        return f"{self.group}: {self.heading}" if self.group else self.heading

    @property
    def task_and_part(self) -> str:
        """The task; for an average in which tasks are missing, also their number, to tell averages apart."""
        return f"{self.task} ({self.part})" if self.part else self.task

    @property
    def average(self) -> bool:
        """Whether it is the average over the tasks."""
        return self.task == AVERAGE

    @property
    def lower(self) -> bool:
        """Whether lower is better."""
        return self.direction == "lower"

    @property
    def ranked(self) -> bool:
        """Whether cells are ranked by it, which needs a direction; costs are not ranked."""
        return self.direction != "none" and not self.cost

    def text(self, value: float | None) -> str:
        """Return a number of the column as it is printed."""
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
    """Return the heading of a column of scores: its task, with the metric if the columns have several."""
    if column.average:
        return f"Avg ({column.part})" if column.part else "Avg"
    return f"{column.task} ({column.metric})" if several_metrics else column.task
