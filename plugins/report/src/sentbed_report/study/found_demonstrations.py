"""Demonstrations that the searches of a study's cells have found.

The columns of PromptEOL's table 4, and the shares of its figure 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from sentbed_report.run_report import Shares
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData
from sentbed_report.study.summary_tables import Summary, SummaryRow


@attrs.frozen
class Found:
    """Result of the search of one run, from its `search.json`."""

    evaluator: str
    sentence: str
    word: str
    score: float
    """Score of the best candidate."""
    scores: tuple[float, ...]
    """Scores of the candidates; those that are not finite are left out."""
    baseline: float | None
    """Score without a demonstration; None if it is not finite."""

    @property
    def improvement(self) -> float | None:
        """Score of the best candidate less that without a demonstration."""
        return None if self.baseline is None else self.score - self.baseline

    @property
    def shares(self) -> Shares | None:
        """How many candidates help, and how many harm."""
        return None if self.baseline is None else Shares.of(self.scores, self.baseline)


@attrs.frozen
class Gain:
    """Score of a searched cell on an evaluation, less that of the cell which differs in the search alone."""

    without: str
    """Name of the other cell."""
    summary: Summary
    """Table whose last column both have."""
    difference: float


@attrs.frozen
class FoundRow:
    """Search of a cell with a seed."""

    cell: CellInfo
    seed: int
    found: Found
    gains: tuple[Gain, ...]
    """One per table in which both cells have a score; means over seeds."""


def found_demonstrations(data: StudyData, summaries: Sequence[Summary]) -> tuple[FoundRow, ...]:
    """Return what the search of each run has found, in the order of cells and seeds."""
    searched = {cell.name for cell in data.cells if any(search_of(run) for run in cell.runs)}
    return tuple(
        FoundRow(cell, run.seed, found, tuple(_gains(data, summaries, cell, searched)))
        for cell in data.cells
        for run in cell.runs
        if (found := search_of(run)) is not None
    )


def search_of(run: CellRun) -> Found | None:
    """Return what a run's search has found; None without one, or with none that can be read."""
    ranking = run.record.get("ranking")
    if not isinstance(ranking, Mapping):
        return None
    rows = [row for row in _mappings(ranking.get("rows")) if _is_number(row.get("score"))]
    ranked = [row for row in rows if row.get("rank") is not None]
    if not ranked:
        return None
    best = max(ranked, key=lambda row: float(row["score"]))
    without = next((float(row["score"]) for row in rows if row.get("rank") is None), None)
    return Found(
        str(ranking.get("evaluator", "")),
        str(best.get("sentence", "")),
        str(best.get("word", "")),
        float(best["score"]),
        tuple(float(row["score"]) for row in ranked),
        without,
    )


def _gains(
    data: StudyData, summaries: Sequence[Summary], cell: CellInfo, searched: set[str]
) -> Iterator[Gain]:
    beside = [
        other.name
        for other in data.cells
        if other.name not in searched
        and sum(cell.labels[axis] != label for axis, label in other.labels.items()) == 1
    ]
    if len(beside) != 1:
        return
    for summary in summaries:
        own, other = (_mean(summary.rows, name) for name in (cell.name, beside[0]))
        if own is not None and other is not None:
            yield Gain(beside[0], summary, own - other)


def _mean(rows: Sequence[SummaryRow], cell: str) -> float | None:
    found = [row.cells[-1].value for row in rows if row.cell == cell and row.status == "finished"]
    return found[0] if len(found) == 1 and found[0] is not None and math.isfinite(found[0]) else None


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        yield from (item for item in value if isinstance(item, Mapping))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
