"""Choice of a study's best cell by `[study.decide]`, and the scores of the chosen cell on test data."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from statistics import fmean, stdev
from typing import TypeAlias

import attrs
from sentbed.protocols import START, Score

from sentbed_report.formatting import count
from sentbed_report.statistics.cell_scores import CellScores
from sentbed_report.statistics.levels import CONFIDENCE
from sentbed_report.statistics.score_interval import mean_interval
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.deciding_score import (
    Decide,
    deciding_scores,
    described,
    without_mean,
)
from sentbed_report.study.study_data import CellInfo, StudyData
from sentbed_report.study.summary_row import SummaryRow
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.estimate import MEAN_DECIMALS

_Task: TypeAlias = tuple[str, str, str]
"""Evaluator, protocol id and task. The encoder is left out, since its name may differ between cells."""


@attrs.frozen
class ChosenScore:
    """A score of the chosen cell on test data, as the mean over seeds."""

    evaluator: str
    protocol: str
    encoder: str
    task: str
    metric: str
    mean: float
    std: float | None
    """Sample standard deviation over the seeds; None for one seed."""
    seeds: int
    low: float | None
    """Lower bound of the interval, within the range of the metric if this range is known. None without
    interval: an interval needs items, or several seeds or prompts whose scores differ."""
    high: float | None
    """Upper bound of the interval; None without interval."""
    over: str
    """Sources of variance that the interval considers, such as `items and seeds`; empty without
    interval."""


@attrs.frozen
class Selection:
    """The cell with the best deciding score, and its scores on test data."""

    cell: str
    """Name of the cell; empty if none could be chosen."""
    reason: str
    """Why no cell could be chosen; empty if a cell was chosen."""
    among: int
    """Number of cells that were tried: the cells that have a deciding score."""
    compared: int
    """Number of tried cells that were compared; the other tried cells lack scores, or have scores that cannot
    decide."""
    tasks: tuple[str, ...]
    """Deciding tasks, each with its evaluator and metric."""
    test_data: bool
    """Whether the cell was chosen by scores on test data."""
    complete: bool
    """Whether all runs of the study have finished."""
    score: float | None = None
    """Deciding score of the chosen cell, as the mean over its seeds, negated if lower is better."""
    std: float | None = None
    """Sample standard deviation of this score over the seeds; None for one seed."""
    seeds: int = 0
    prompts: int = 0
    """Number of prompts over which the score is a mean; 0 in a study without `prompts`."""
    ties: tuple[str, ...] = ()
    """Names of other cells with the same deciding score."""
    left: tuple[tuple[str, str], ...] = ()
    """Cells that could not be chosen: name and reason."""
    scores: tuple[ChosenScore, ...] = ()
    """Scores of the chosen cell on test data."""
    confidence: float = CONFIDENCE
    """Confidence level of the intervals in `scores`: 0.95 if the seeds are fresh, else 1 - 0.05 / `among`."""
    fresh_seeds: tuple[int, ...] = ()
    """Seeds of `scores`, if these seeds had no part in the choice; empty if `scores` have the seeds of the
    choice."""


def select(data: StudyData, summaries: Sequence[Summary]) -> Selection | None:
    """Choose a cell (see `choose`), and add its scores on test data.

    The choice depends on the weights that the study's seeds gave: a lucky seed raises the scores on all data,
    so the chosen cell's scores on test data are too high. If the study has run the cell with fresh seeds
    (`Decide.confirm`), the scores are those of the fresh seeds. If not, the error rate of each interval, 5 %,
    is divided by the number of cells that were tried (Bonferroni). Then the interval of the chosen cell,
    whichever it is, misses the true mean with a probability of at most 5 %.
    """
    selection = choose(data)
    if selection is None or data.decide is None or not selection.cell:
        return selection

    (cell,) = [cell for cell in data.cells if cell.name == selection.cell]

    confidence = 1 - (1 - CONFIDENCE) / selection.among
    with_fresh_seeds = attrs.evolve(cell, runs=cell.confirmation)
    if with_fresh_seeds.status == "finished" and len(with_fresh_seeds.seeds) > 1:
        confidence = CONFIDENCE
        study_of_cell = attrs.evolve(
            data,
            cells=(with_fresh_seeds,),
            baseline=None,
            expected={},
            references={},
        )
        summaries = summarise(study_of_cell)
        selection = attrs.evolve(selection, fresh_seeds=with_fresh_seeds.seeds)

    scores: list[ChosenScore] = []
    for summary in summaries:
        if summary.metric or summary.development:
            continue
        for row in summary.rows:
            if row.cell == cell.name and not row.encoder.endswith(START):
                scores += _scores_of_row(summary, row, confidence)
    return attrs.evolve(selection, scores=tuple(scores), confidence=confidence)


def choose(data: StudyData) -> Selection | None:
    """Choose the cell with the best deciding score, as the mean over seeds; None without `[study.decide]`.

    Of several equally good cells, the first in the recipe's order is chosen. A cell cannot be chosen if another
    cell has more seeds, if it lacks a deciding task, or if any of its deciding scores is not finite.
    """
    decide = data.decide
    if decide is None:
        return None

    tried: dict[str, CellScores] = {}
    tasks: dict[_Task, Score] = {}
    for cell in data.cells:
        scores = _deciding_scores_of_cell(cell, decide)
        deciding = list(chain.from_iterable(scores.of_runs.values()))
        if deciding:
            tried[cell.name] = scores

        for score in deciding:
            tasks[_task(score)] = score
    no_mean = without_mean([*tasks.values()])
    most = max((len(scores.seeds) for scores in tried.values()), default=0)

    left: list[tuple[str, str]] = []
    cells_of_mean: dict[float, list[str]] = {}
    for name, scores in tried.items():
        reason = no_mean or _ineligible(scores, decide, tasks, most)
        if reason:
            left.append((name, reason))
            continue
        mean = round(fmean(_worths(scores)), MEAN_DECIMALS)
        cells_of_mean.setdefault(mean, []).append(name)

    selection = Selection(
        cell="",
        reason="",
        among=len(tried),
        compared=len(tried) - len(left),
        tasks=tuple(map(described, tasks.values())),
        test_data=decide.test_data,
        complete=data.finished == data.total,
        left=tuple(left),
    )
    if not cells_of_mean:
        reason = no_mean or _why_none(data, decide, left)
        return attrs.evolve(selection, reason=reason)

    best, *ties = cells_of_mean[max(cells_of_mean)]
    worths = _worths(tried[best])
    std = None
    if len(worths) > 1:
        std = stdev(worths)
    return attrs.evolve(
        selection,
        cell=best,
        score=fmean(worths),
        std=std,
        seeds=most,
        prompts=len(data.prompts),
        ties=tuple(ties),
    )


def _deciding_scores_of_cell(cell: CellInfo, decide: Decide) -> CellScores:
    """Return the deciding scores of each run; seeds with unfinished runs are left out."""
    of_runs = {}
    for run in cell.runs:
        if run.seed in cell.finished_seeds:
            scores = deciding_scores(run.scores, decide)
            of_runs[run.seed, run.prompt] = scores
    return CellScores(of_runs)


def _worths(scores: CellScores) -> list[float]:
    """Return the deciding score of each seed, negated if lower is better."""
    (first, *_), *_ = scores.of_runs.values()
    sign = 1.0
    if first.direction == "lower":
        sign = -1.0
    return [sign * value for value in scores.by_seed.values()]


def _task(score: Score) -> _Task:
    return score.evaluator, score.protocol_id, score.task


def _ineligible(
    scores: CellScores, decide: Decide, tasks: Collection[_Task], most: int
) -> str:
    """Return why a cell with these deciding scores cannot be chosen; empty if it can be chosen.

    `tasks` are all tasks of which any cell has deciding scores; the same task of another evaluator or protocol is
    another one. `most` is the largest number of seeds of any cell.
    """
    if len(scores.seeds) < most:
        return f"it has {count(len(scores.seeds), 'seed')} of {most}"
    for of_run in scores.of_runs.values():
        missing = set(decide.tasks)
        for score in of_run:
            missing.discard(score.task)
        scored = set(map(_task, of_run))
        for task in tasks:
            if task not in scored:
                missing.add(task[-1])
        if missing:
            return f"it has no score of {', '.join(sorted(missing))} under every seed"
        for score in of_run:
            if not math.isfinite(score.value):
                return "a deciding score is not finite"
    return ""


def _why_none(data: StudyData, decide: Decide, left: Sequence[tuple[str, str]]) -> str:
    """Return why no cell could be chosen; `left` are cells with reasons."""
    if left:
        return "; ".join(map(": ".join, left))
    if not data.finished:
        return "nothing has finished"
    where = "test" if decide.test_data else "development"
    if decide.tasks:
        return f"no score of {', '.join(decide.tasks)} is on {where} data"
    return f"no score is on {where} data"


def _scores_of_row(
    summary: Summary, row: SummaryRow, confidence: float
) -> Iterator[ChosenScore]:
    """Yield the scores of the chosen cell's row in a table, one per task."""
    for column, measured in zip(summary.columns, row.cells, strict=True):
        if not column.ranked or measured.value is None or measured.scores is None:
            continue
        interval, judged = mean_interval(measured.scores, confidence)
        low, high = interval or (None, None)
        yield ChosenScore(
            evaluator=summary.evaluator,
            protocol=summary.protocol,
            encoder=row.encoder,
            task=column.task,
            metric=column.metric,
            mean=measured.value,
            std=measured.std,
            seeds=len(measured.seeds),
            low=low,
            high=high,
            over=judged.basis,
        )
