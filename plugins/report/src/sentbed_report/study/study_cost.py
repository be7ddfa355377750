"""Cost of a whole study, and its hypothetical cost without stages that runs share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import attrs

from sentbed_report.run_cost import NOTHING, RunCost
from sentbed_report.study.study_data import CellRun, StudyData


@attrs.frozen
class StudyCost:
    """Cost of the runs of a study that have finished or failed."""

    runs: int
    """Number of these runs."""
    cells: RunCost
    """Cost of these runs without shared stages."""
    shared: RunCost | None
    """Cost of the shared stages, each counted once; None if no stages are shared."""
    alone: RunCost
    """Cost if every run had trained all of its stages itself."""
    begun: Mapping[str, int]
    """Run directory of shared stages -> number of runs that start from them."""
    unknown: int
    """Number of further finished or failed runs whose cost was not recorded."""
    cached: int
    """Number of runs whose evaluations encoded no text, because all vectors were in the cache."""

    @property
    def taken(self) -> RunCost:
        """Actual cost: cells and shared stages together."""
        return self.cells if self.shared is None else self.shared + self.cells


def study_cost(data: StudyData) -> StudyCost | None:
    """Return the cost of a study so far; None if no run has a recorded cost.

    Shared stages are left out until a run that starts from them has finished or failed.
    """
    costs = []
    unknown = cached = 0
    shared: dict[str, RunCost] = {}
    begun: Counter[str] = Counter()
    for cell in data.cells:
        for run in cell.runs:
            if run.status not in ("finished", "failed"):
                continue
            if run.cost is None:
                unknown += 1
                continue
            costs.append(run.cost)
            # The directory of shared stages has their key in its name, so equal names mean the same stages.
            shared.update(run.cost.shared)
            begun.update(run.cost.shared.keys())
            cached += _encoded_nothing(run)
    if not costs:
        return None
    of_shared = None
    if shared:
        of_shared = sum(shared.values(), start=NOTHING)
    return StudyCost(
        runs=len(costs),
        cells=sum((cost.own for cost in costs), start=NOTHING),
        shared=of_shared,
        alone=sum((cost.alone for cost in costs), start=NOTHING),
        begun=begun,
        unknown=unknown,
        cached=cached,
    )


def _encoded_nothing(run: CellRun) -> bool:
    texts = run.record.get("manifest", {}).get("cache") or {}
    return bool(texts.get("taken")) and not texts.get("encoded")
