"""Results of the demonstration searches of a study's cells: the best demonstration, and what it gains.

They have the columns of PromptEOL's table 4, and the shares of its figure 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from sentbed_report.run_report import Shares
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData
from sentbed_report.study.summary_row import SummaryRow
from sentbed_report.study.summary_tables import Summary


@attrs.frozen
class Found:
    """Result of the demonstration search of one run, from its `search.json`."""

    evaluator: str
    sentence: str
    word: str
    score: float
    """Score of the best candidate."""
    scores: tuple[float, ...]
    """Finite scores of the candidates."""
    baseline: float | None
    """Score without a demonstration; None if it is not finite."""

    @property
    def improvement(self) -> float | None:
        """Score of the best candidate minus the score without a demonstration."""
        return None if self.baseline is None else self.score - self.baseline

    @property
    def shares(self) -> Shares | None:
        """Shares of the candidates that score higher, and lower, than without a demonstration."""
        return None if self.baseline is None else Shares.of(self.scores, self.baseline)


@attrs.frozen
class Gain:
    """Gain of a search in one table: score of the cell minus that of the cell without a search."""

    without: str
    """Name of the cell without a search, which differs in nothing else."""
    summary: Summary
    """Table in whose last column both cells have a score."""
    difference: float
    """Difference of the scores in that column."""


@attrs.frozen
class FoundRow:
    """Search of one cell under one seed."""

    cell: CellInfo
    seed: int
    found: Found
    gains: tuple[Gain, ...]
    """One gain per table in which both cells have a score; differences of means over seeds."""


def found_demonstrations(
    data: StudyData, summaries: Sequence[Summary]
) -> tuple[FoundRow, ...]:
    """Return the result of each run's search, in the order of cells and seeds."""
    without_search = []
    for cell in data.cells:
        if not any(map(search_of, cell.runs)):
            without_search.append(cell)
    rows = []
    for cell in data.cells:
        for run in cell.runs:
            result = search_of(run)
            if result is not None:
                gains = tuple(_gains(cell, without_search, summaries))
                rows.append(FoundRow(cell, run.seed, result, gains))
    return tuple(rows)


def search_of(run: CellRun) -> Found | None:
    """Return the result of a run's search; None if there was none, or if its record cannot be read."""
    ranking = run.record.get("ranking")
    if not isinstance(ranking, Mapping):
        return None
    rows = ranking.get("rows")
    if not isinstance(rows, Sequence):
        return None
    scores: list[float] = []
    best: Mapping[str, Any] = {}
    best_score = -math.inf
    baseline = None
    for row in rows:
        score = _finite(row.get("score")) if isinstance(row, Mapping) else None
        if score is None:
            continue
        if row.get("rank") is None:
            baseline = score if baseline is None else baseline
            continue
        if score > best_score:
            best = row
            best_score = score
        scores.append(score)
    if not scores:
        return None
    return Found(
        evaluator=str(ranking.get("evaluator", "")),
        sentence=str(best.get("sentence", "")),
        word=str(best.get("word", "")),
        score=best_score,
        scores=tuple(scores),
        baseline=baseline,
    )


def _gains(
    cell: CellInfo, without_search: Sequence[CellInfo], summaries: Sequence[Summary]
) -> Iterator[Gain]:
    """Yield the gains over the cell without a search that differs in a single label, if there is just one."""
    beside = []
    for other in without_search:
        if len(other.labels.items() - cell.labels.items()) == 1:
            beside.append(other.name)
    if len(beside) != 1:
        return
    for summary in summaries:
        with_search = _mean(summary.rows, cell.name)
        without = _mean(summary.rows, beside[0])
        if with_search is not None and without is not None:
            yield Gain(beside[0], summary, with_search - without)


def _mean(rows: Sequence[SummaryRow], cell: str) -> float | None:
    """Return the mean in the last column of a cell with a single finished row; else None."""
    values = []
    for row in rows:
        if row.cell == cell and row.status == "finished":
            values.append(row.cells[-1].value)
    return _finite(values[0]) if len(values) == 1 else None


def _finite(value: Any) -> float | None:
    """Return a value as a float if it is a finite number; else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
