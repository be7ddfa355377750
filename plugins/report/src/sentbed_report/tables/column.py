"""`Column` of a table: task, metric and protocol of its numbers, and how they are printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import attrs
from sentbed.protocols import Direction

from sentbed_report.formatting import number, probability, signed

AVERAGE = "AVG"
"""Task of every average over tasks, whether the evaluator reports it or the report computes it."""

Form: TypeAlias = Literal["number", "signed", "count", "p-value"]
"""How the numbers of a column are printed."""


@attrs.frozen
class Column:
    """A column of numbers or of text."""

    task: str
    """Task, or another name of what the numbers measure."""
    metric: str = ""
    protocol: Mapping[str, Any] = attrs.field(factory=dict)
    """Protocol that all scores of the column share; empty for an average that the report computes."""
    direction: Direction = "none"
    part: str = ""
    """How many tasks an average is over, such as `5 of 7`, if tasks are missing in it; otherwise empty."""
    cost: bool = False
    """Whether the column is a cost of encoders, such as time or memory; costs are neither ranked nor tested."""
    heading: str = attrs.field()
    """Heading of the column; by default the task."""
    group: str = ""
    """Common heading of several adjacent columns, such as their evaluator."""
    form: Form = "number"
    digits: int = 2
    """Number of decimals to print."""
    reference: str = ""
    """Name of the row with which the other rows are compared."""
    address: str = ""
    """Address, relative to the report, of the page with the items behind the numbers; empty if there is no
    page."""

    @heading.default
    def _task_as_heading(self) -> str:
        return self.task

    @property
    def unnamed_metric(self) -> str:
        """The metric, if the heading does not name it; empty for a `mean` over several metrics."""
        if self.metric == "mean" or f"({self.metric})" in self.heading:
            return ""
        return self.metric

    @property
    def average(self) -> bool:
        """Whether the column is an average over tasks."""
        return self.task == AVERAGE

    @property
    def lower(self) -> bool:
        """Whether lower numbers are better."""
        return self.direction == "lower"

    @property
    def ranked(self) -> bool:
        """Whether cells are ranked by the column: higher or lower numbers are better in it, and it is no cost."""
        return self.direction != "none" and not self.cost

    @property
    def tested(self) -> bool:
        """Whether cells are tested against the baseline; not in costs, and not in a mean of several metrics."""
        if self.average and not self.protocol and self.direction == "none":
            return False
        return not self.cost

    def text(self, value: float | None) -> str:
        """Return a number of the column as text, as `form` and `digits` say."""
        if value is None or self.form == "number":
            return number(value, self.digits)
        if self.form == "signed":
            return signed(value, self.digits)
        if self.form == "count":
            return f"{value:,.0f}"
        return probability(value)


def heading_of(column: Column, several_metrics: bool) -> str:
    """Return the heading of a column of scores: its task, and its metric if the table has several metrics."""
    if column.average:
        return f"Avg ({column.part})" if column.part else "Avg"
    if several_metrics:
        return f"{column.task} ({column.metric})"
    return column.task
