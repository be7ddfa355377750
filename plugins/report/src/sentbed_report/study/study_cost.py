"""What a whole study took, and what it would have taken if each run had trained all of its stages itself."""

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
    """What they took after the stages that they share."""
    shared: RunCost | None
    """What the shared stages took, each of them once; None if there are none."""
    alone: RunCost
    """What the runs would have taken with each shared stage once a run that begins with it."""
    begun: Mapping[str, int]
    """Run directory of shared stages -> number of the runs that begin with them."""
    unknown: int
    """Number of further runs that have finished or failed, and whose cost is not recorded."""
    cached: int
    """Number of runs that encoded no text for their evaluations, since all vectors were there."""

    @property
    def taken(self) -> RunCost:
        """What cells and shared stages took together."""
        return self.cells if self.shared is None else self.shared + self.cells


def study_cost(data: StudyData) -> StudyCost | None:
    """Return the cost of a study so far; None if no run has a recorded one.

    Stages of which no run has finished or failed that goes on from them are not known, and left out.
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
            # Of equal name is the same run: its directory has the key of its stages in its name.
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
