"""Cost of a whole study."""

from __future__ import annotations

from itertools import chain

from sentbed_report.run_cost import NOTHING, RunCost
from sentbed_report.study.study_data import StudyData


def study_cost(data: StudyData) -> RunCost | None:
    """Return the cost of the runs that have finished or failed, with fresh seeds too; None if none is recorded.

    Shared stages count once, and so does a run of several cells whose weights are the same.
    """
    parts: dict[str, RunCost] = {}
    fresh_runs = chain.from_iterable(cell.confirmation for cell in data.cells)
    for run in chain(data.runs, fresh_runs):
        if run.cost is not None:
            parts[str(run.directory or run)] = run.cost.own
            # The directory of shared stages has their key in its name, so equal names mean the same stages.
            parts.update(run.cost.shared)
    if not parts:
        return None
    return sum(parts.values(), start=NOTHING)
