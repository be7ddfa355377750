"""Cost of a whole study."""

from __future__ import annotations

from sentbed_report.run_cost import NOTHING, RunCost
from sentbed_report.study.study_data import StudyData


def study_cost(data: StudyData) -> RunCost | None:
    """Return the cost of the runs that have finished or failed, with fresh seeds too; None if none is recorded.

    Shared stages count once, and so does a run of several cells whose weights are the same.
    """
    parts: dict[str, RunCost] = {}
    for run in data.runs_and_fresh_runs:
        if run.cost is not None:
            parts[str(run.directory or run)] = run.cost.own
            # The directory of shared stages has their key in its name, so equal names mean the same stages.
            parts.update(run.cost.shared)
    if not parts:
        return None
    return sum(parts.values(), start=NOTHING)
