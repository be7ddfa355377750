"""Cost of a whole study, and the cost that it would have if runs did not share stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import chain

import attrs

from sentbed_report.run_cost import NOTHING, RunCost
from sentbed_report.study.study_data import CellRun, StudyData


@attrs.frozen
class StudyCost:
    """Recorded cost of the runs of a study that have finished or failed, with the runs with fresh seeds."""

    runs: int
    """Number of these runs with a recorded cost."""
    cells: RunCost
    """Cost of these runs without shared stages."""
    shared: RunCost | None
    """Cost of the shared stages, which are trained once and from which several runs start. Each is counted
    once. None if no stages are shared."""
    alone: RunCost
    """Cost if every run had trained all its stages itself."""
    begun: Mapping[str, int]
    """Run directory of shared stages -> number of runs that started from them."""
    unknown: int
    """Number of further finished or failed runs, whose cost was not recorded."""
    cached: int
    """Number of runs whose evaluations encoded no text, because all vectors were in the cache."""

    @property
    def taken(self) -> RunCost:
        """Actual cost: that of the runs plus that of the shared stages."""
        if self.shared is None:
            return self.cells
        return self.shared + self.cells


def study_cost(data: StudyData) -> StudyCost | None:
    """Return the cost of a study so far; None if no run has a recorded cost.

    Shared stages count as soon as a run that starts from them has finished or failed.
    """
    runs = 0
    unknown = 0
    cached = 0
    cost_of_cells = NOTHING
    cost_alone = NOTHING
    shared: dict[str, RunCost] = {}
    begun: Counter[str] = Counter()
    counted = set()
    fresh_runs = chain.from_iterable(cell.confirmation for cell in data.cells)
    for run in chain(data.runs, fresh_runs):
        if run.status not in ("finished", "failed"):
            continue
        # Cells with the same weights have the same run.
        if run.directory is not None:
            if run.directory in counted:
                continue
            counted.add(run.directory)
        if run.cost is None:
            unknown += 1
            continue
        runs += 1
        cost_of_cells += run.cost.own
        cost_alone += run.cost.alone
        # The directory of shared stages has their key in its name, so equal names mean the same stages.
        shared.update(run.cost.shared)
        begun.update(run.cost.shared.keys())
        if _encoded_nothing(run):
            cached += 1
    if runs == 0:
        return None

    cost_of_shared = None
    if shared:
        cost_of_shared = sum(shared.values(), start=NOTHING)
    return StudyCost(
        runs=runs,
        cells=cost_of_cells,
        shared=cost_of_shared,
        alone=cost_alone,
        begun=begun,
        unknown=unknown,
        cached=cached,
    )


def _encoded_nothing(run: CellRun) -> bool:
    texts = run.manifest.get("cache")
    if not isinstance(texts, Mapping):
        return False
    return bool(texts.get("taken")) and not texts.get("encoded")
