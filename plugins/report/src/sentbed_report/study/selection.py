"""The cell that `[study.decide]` chooses, what it was chosen among, and its scores on test data."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from statistics import fmean, stdev
from typing import TypeAlias

import attrs
from sentbed.helpers import score_digits
from sentbed.protocols import START, Score

from sentbed_report.degenerate_scores import degenerate_of
from sentbed_report.formatting import count, number
from sentbed_report.statistics.item_components import ComponentStore
from sentbed_report.statistics.levels import CONFIDENCE
from sentbed_report.statistics.score_interval import judged_mean
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.deciding_score import (
    Decide,
    deciding_scores,
    described,
    mean_of,
    without_mean,
)
from sentbed_report.study.study_data import CellInfo, StudyData
from sentbed_report.study.summary_row import SummaryRow
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.estimate import MEAN_DECIMALS

_Task: TypeAlias = tuple[str, str, str]
"""Evaluator, protocol id and task: what cells have in common, whatever their encoders are called."""


@attrs.frozen
class ChosenScore:
    """A score of the chosen cell on test data, as the mean over its seeds."""

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
    """Bounds of the interval, within the range of the metric where it is known; None where there are neither
    items, several seeds nor prompts that differ."""
    high: float | None
    over: str
    """What the interval is over, such as `items and seeds`, see `Basis`; empty without one."""
    decided: bool
    """Whether the cell was chosen by it."""


@attrs.frozen
class Selection:
    """Which cell has the best deciding score, and how it does on test data."""

    cell: str
    """Name of the cell; empty if none could be chosen."""
    reason: str
    """Why none could be chosen."""
    among: int
    """Number of cells that were tried: those that have a deciding score."""
    compared: int
    """Number of these that were compared: the others lack scores until now, or have scores that cannot be."""
    tasks: tuple[str, ...]
    """Tasks that decided, each with its evaluator and metric."""
    test_data: bool
    """Whether it was chosen on test data."""
    complete: bool
    """Whether all runs of the study have finished."""
    score: float | None = None
    """Mean over its seeds of the deciding score, higher is better."""
    std: float | None = None
    seeds: int = 0
    prompts: int = 0
    """Number of prompts that its score is a mean over; 0 in a study without `prompts`."""
    ties: tuple[str, ...] = ()
    """Other cells with the same score."""
    left: tuple[tuple[str, str], ...] = ()
    """Cells that could not be chosen, each with the reason."""
    scores: tuple[ChosenScore, ...] = ()
    confidence: float = CONFIDENCE
    """Confidence of the intervals of `scores`: 0.95 on fresh seeds, else 1 - 0.05 / `among`."""
    fresh_seeds: tuple[int, ...] = ()
    """Seeds that `scores` are of and the choice had not seen; empty if they are those of the choice."""

    @property
    def sentence(self) -> str:
        """What was chosen, in one sentence."""
        if not self.cell:
            return f"No cell was chosen: {self.reason}."
        scores = [] if self.score is None else [self.score]
        digits = score_digits(scores)
        spread = "" if self.std is None else f" ± {number(self.std, digits)}"
        over = count(self.seeds, "seed")
        if self.prompts:
            over = f"{count(self.prompts, 'prompt')} and {over}"
        mean = "the mean of " if len(self.tasks) > 1 else ""
        return (
            f"The chosen cell is “{self.cell}”{'' if self.complete else ' so far'}, the best of "
            f"{self.number_compared} by {mean}{', '.join(self.tasks)}: "
            f"{number(self.score, digits)}{spread} over {over}."
        )

    @property
    def number_compared(self) -> str:
        """How many cells were compared, and of how many, if these are more."""
        if self.compared == self.among:
            return count(self.among, "cell")
        return f"{count(self.compared, 'cell')} that can be compared, of {self.among:,} that were tried,"


def select(data: StudyData, summaries: Sequence[Summary]) -> Selection | None:
    """Return what `choose` does, with the scores of the chosen cell on test data; see `ChosenScore`.

    The choice had seen the weights of the study's seeds: a lucky seed lifts scores on all data alike. So the
    scores are those of fresh seeds, where the study has run some (`Decide.confirm`); otherwise the level of
    the intervals, 5 %, is divided by the number of cells that were tried (Bonferroni), which bounds the
    probability that the interval of whichever cell is chosen misses its mean.
    """
    selection = choose(data)
    if selection is None or data.decide is None or not selection.cell:
        return selection
    cell = next(cell for cell in data.cells if cell.name == selection.cell)
    deciding = set()
    for score in chain.from_iterable(_deciding(cell, data.decide)):
        deciding.add((score.encoder, *_task(score)))
    confidence = 1 - (1 - CONFIDENCE) / selection.among
    fresh = tuple(run for run in cell.confirmation if run.status == "finished")
    fresh_seeds = tuple(dict.fromkeys(run.seed for run in fresh))
    if len(fresh_seeds) > 1 and len(fresh) == len(cell.confirmation):
        confidence = CONFIDENCE
        cell = attrs.evolve(cell, runs=fresh)
        alone = attrs.evolve(
            data,
            cells=(cell,),
            baseline=None,
            groups=False,
            expected={},
            references={},
            published=(),
        )
        summaries = summarise(alone)
        selection = attrs.evolve(selection, fresh_seeds=fresh_seeds)
    scores: list[ChosenScore] = []
    for summary in summaries:
        if summary.metric or summary.development:
            continue
        for row in summary.rows:
            if row.cell == cell.name and not row.encoder.endswith(START):
                scores += _scores_of_row(summary, row, deciding, confidence)
    return attrs.evolve(selection, scores=tuple(scores), confidence=confidence)


def choose(data: StudyData) -> Selection | None:
    """Return the cell with the best deciding score; None if the study does not say what decides.

    The score is the mean over seeds. A cell that `[study.stop]` has shown to be worse than another cannot be
    chosen, and of the others only those with the most seeds; of equally good ones it is the first in the
    recipe's order. Cells that lack a deciding task, or have a score that is degenerate or not finite, cannot
    be chosen.
    """
    if data.decide is None:
        return None
    tried: dict[str, list[tuple[Score, ...]]] = {}
    tasks: dict[_Task, Score] = {}
    for cell in data.cells:
        scores = _deciding(cell, data.decide)
        if any(scores):
            tried[cell.name] = scores
        for score in chain.from_iterable(scores):
            tasks[_task(score)] = score
    claims = () if data.decisions is None else data.decisions.claims
    worse = {claim.cell: claim for claim in claims}
    most = max(
        (len(scores) for name, scores in tried.items() if name not in worse), default=0
    )

    fit: list[str] = []
    left: list[tuple[str, str]] = []
    for name, scores in tried.items():
        claim = worse.get(name)
        if claim is not None:
            reason = f"shown to be worse than {claim.than} after {count(claim.seeds, 'seed')}"
        else:
            reason = _unfit(scores, data, tasks, most)
        if reason:
            left.append((name, reason))
        else:
            fit.append(name)
    no_mean = without_mean([*tasks.values()])
    if no_mean:
        fit = []
    selection = Selection(
        "",
        "",
        len(tried),
        len(fit) + len(tried.keys() & worse.keys()),
        tuple(map(described, tasks.values())),
        data.decide.test_data,
        data.finished == data.total,
        left=tuple(left),
    )
    if not fit:
        return attrs.evolve(selection, reason=no_mean or _why_none(data, selection))

    prompts = max(len(data.prompts), 1)
    values = {name: _means_of_seeds(tried[name], prompts) for name in fit}
    means = {name: round(fmean(values[name]), MEAN_DECIMALS) for name in fit}
    highest = max(means.values())
    best, *ties = [name for name in fit if means[name] == highest]
    std = None
    if len(values[best]) > 1:
        std = stdev(values[best])
    return attrs.evolve(
        selection,
        cell=best,
        score=fmean(values[best]),
        std=std,
        seeds=most // prompts,
        prompts=len(data.prompts),
        ties=tuple(ties),
    )


def _means_of_seeds(scores: Sequence[Sequence[Score]], prompts: int) -> list[float]:
    """Return the mean of each seed, of runs that are ordered by seed, `prompts` of each."""
    of_runs = [mean_of(scores_of_run) or 0.0 for scores_of_run in scores]
    means = []
    for first in range(0, len(of_runs), prompts):
        means.append(fmean(of_runs[first : first + prompts]))
    return means


def _task(score: Score) -> _Task:
    return score.evaluator, score.protocol_id, score.task


def _deciding(cell: CellInfo, decide: Decide) -> list[tuple[Score, ...]]:
    """Return the deciding scores of each run of the seeds that have finished, seed by seed."""
    scores = []
    for seed in cell.finished_seeds:
        scores += [
            deciding_scores(run.scores, decide) for run in cell.runs if run.seed == seed
        ]
    return scores


def _unfit(
    scores: Sequence[Sequence[Score]],
    data: StudyData,
    tasks: Collection[_Task],
    most: int,
) -> str:
    """Return why a cell cannot be chosen; empty if it can.

    `tasks` are those of which any cell has scores, `most` the largest number of runs that a cell has.
    """
    named = () if data.decide is None else data.decide.tasks
    prompts = max(len(data.prompts), 1)
    if len(scores) < most:
        return f"it has {count(len(scores) // prompts, 'seed')} of {most // prompts}"
    scored = {score.task for score in chain.from_iterable(scores)}
    missing = [task for task in named if task not in scored]
    if missing:
        return f"it has no score of {', '.join(missing)}"
    for of_seed in scores:
        scored_tasks = set(map(_task, of_seed))
        missing = [task[-1] for task in tasks if task not in scored_tasks]
        if missing:
            return f"it has no score of {', '.join(missing)} under every seed"
        if any(map(degenerate_of, of_seed)):
            return "a deciding score is degenerate"
        if not all(math.isfinite(score.value) for score in of_seed):
            return "a deciding score is not finite"
    return ""


def _why_none(data: StudyData, selection: Selection) -> str:
    """Return why no cell could be chosen."""
    if selection.left:
        return "; ".join(f"{name}: {reason}" for name, reason in selection.left)
    if not data.finished:
        return "nothing has finished"
    where = "test" if selection.test_data else "development"
    if data.decide is not None and data.decide.tasks:
        return f"no score of {', '.join(data.decide.tasks)} is on {where} data"
    return f"no score is on {where} data"


def _scores_of_row(
    summary: Summary,
    row: SummaryRow,
    deciding: Collection[tuple[str, ...]],
    confidence: float,
) -> Iterator[ChosenScore]:
    """Yield the scores of a cell in a table, each task by its first metric."""
    store = ComponentStore(summary.resamples)
    for column, measured, scores in zip(
        summary.columns, row.cells, summary.measured, strict=True
    ):
        if not column.ranked or measured.value is None:
            continue
        name = (row.encoder, summary.evaluator, summary.protocol, column.task)
        judged = judged_mean(scores[row.key], store, confidence)
        low, high = judged.interval or (None, None)
        yield ChosenScore(
            summary.evaluator,
            summary.protocol,
            row.encoder,
            column.task,
            column.metric,
            measured.value,
            measured.std,
            len(measured.seeds),
            low,
            high,
            judged.basis or "",
            name in deciding,
        )
