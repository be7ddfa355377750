"""What a whole study took, and what it would have taken if each run had trained all of its stages itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import attrs

from sentbed_report.run_cost import RunCost, total
from sentbed_report.study.study_data import StudyData


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
    ended = [run for cell in data.cells for run in cell.runs if run.status in ("finished", "failed")]
    known = [(run, run.cost) for run in ended if run.cost is not None]
    if not known:
        return None
    # Of equal name is the same run: its directory has the key of its stages in its name.
    shared = {name: cost for _, recorded in known for name, cost in recorded.shared.items()}
    return StudyCost(
        len(known),
        total(recorded.own for _, recorded in known),
        total(shared.values()) if shared else None,
        total(recorded.alone for _, recorded in known),
        Counter(name for _, recorded in known for name in recorded.shared),
        len(ended) - len(known),
        sum(_encoded_nothing(run.record) for run, _ in known),
    )


def _encoded_nothing(record: Mapping[str, Any]) -> bool:
    texts = record.get("manifest", {}).get("cache") or {}
    return bool(texts.get("taken")) and not texts.get("encoded")
