"""The cost of a run: a recipe table, a report section, a command and an executor for sentbed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sentbed import hookimpl
from sentbed.protocols import Executor, RecipeTable, ReportData, ReportSection

from sentbed_cost.table import Cost
from sentbed_cost.threads import Threads

if TYPE_CHECKING:
    from sentbed.protocols import Run

__all__ = ["Cost", "Threads", "commands", "executors", "recipe_tables", "report_sections"]


@hookimpl
def recipe_tables() -> Mapping[str, type[RecipeTable]]:
    """Return `[cost]`."""
    return {"cost": Cost}


@hookimpl
def executors() -> Sequence[type[Executor]]:
    """Return `threads`."""
    return [Threads]


@hookimpl
def commands() -> Mapping[str, str]:
    """Return `cost`."""
    return {"cost": "sentbed_cost.command:cost"}


@hookimpl
def report_sections(run: Run, data: ReportData) -> Sequence[ReportSection]:
    """Return the section "Cost" if the recipe has `[cost]`."""
    table = run.recipe.table(Cost)
    if table is None:
        return ()
    row = (round(data.seconds, 1), table.per_hour, round(table.of(data.seconds), 6))
    columns = ("seconds", f"{table.currency} an hour", table.currency)
    return [ReportSection("cost", "Cost", columns, (row,), "From the start of the run to this report.")]
