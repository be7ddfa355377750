"""Results of the demonstration searches in a study: each run's best demonstration, and what it gains.

A demonstration is a sentence with a word that sums it up; it precedes the sentence to encode in the prompt. The
results have the columns of table 4 and the shares of figure 3 in the paper of PromptEOL.
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
    """Scores of the candidates, without those that are not finite."""
    baseline: float | None
    """Score without a demonstration; None if it is not finite."""

    @property
    def improvement(self) -> float | None:
        """Score of the best candidate minus the score without a demonstration."""
        if self.baseline is None:
            return None
        return self.score - self.baseline

    @property
    def shares(self) -> Shares | None:
        """Numbers of candidates that score higher, and lower, than without a demonstration."""
        if self.baseline is None:
            return None
        return Shares.of(self.scores, self.baseline)


@attrs.frozen
class Gain:
    """Gain by a search in one table: score of the cell with the search, minus score of the cell `without`."""

    without: str
    """Name of the cell without a search; it differs from the cell in a single label."""
    summary: Summary
    """Table in which both cells have a score in the last column."""
    difference: float
    """Difference of these scores, which are means over seeds."""


@attrs.frozen
class FoundRow:
    """Search of one cell under one seed."""

    cell: CellInfo
    seed: int
    found: Found
    gains: tuple[Gain, ...]
    """One gain for each table in which both cells have a score."""


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
    """Return the result of a run's search; None if it has none, or no candidate's score can be read."""
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
        if not isinstance(row, Mapping):
            continue
        score = _finite_number(row.get("score"))
        if score is None:
            continue
        # The row without a rank is the prompt without a demonstration.
        if row.get("rank") is None:
            if baseline is None:
                baseline = score
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
    cell: CellInfo,
    without_search: Sequence[CellInfo],
    summaries: Sequence[Summary],
) -> Iterator[Gain]:
    """Yield the gain of a cell over its neighbour without a search, for each table in which both have a score.

    The neighbour is the only cell without a search that differs from `cell` in a single label. If there are
    several such cells, or none, there are no gains.
    """
    neighbours = []
    for other in without_search:
        if len(other.labels.items() - cell.labels.items()) == 1:
            neighbours.append(other.name)
    if len(neighbours) != 1:
        return

    (neighbour,) = neighbours
    for summary in summaries:
        with_search = _mean_of_cell(summary.rows, cell.name)
        without = _mean_of_cell(summary.rows, neighbour)
        if with_search is not None and without is not None:
            yield Gain(neighbour, summary, with_search - without)


def _mean_of_cell(rows: Sequence[SummaryRow], cell: str) -> float | None:
    """Return a cell's mean in the last column if it is finite and the cell has one finished row; else None."""
    values = []
    for row in rows:
        if row.cell == cell and row.status == "finished":
            values.append(row.cells[-1].value)
    if len(values) != 1:
        return None
    return _finite_number(values[0])


def _finite_number(value: Any) -> float | None:
    """Return a value as a float; None if it is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not math.isfinite(value):
        return None
    return float(value)
