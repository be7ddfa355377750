"""The cell that `[study.decide]` chooses, what it was chosen among, and its scores on test data."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import fmean, stdev

import attrs
from sentbed.errors import RunError
from sentbed.helpers import score_digits
from sentbed.protocols import START, Score

from sentbed_report.degenerate_scores import degenerate_of
from sentbed_report.formatting import count, number
from sentbed_report.item_components import ComponentStore, require_same_items
from sentbed_report.resampling import CONFIDENCE
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.deciding_score import (
    Decide,
    deciding_scores,
    described,
    mean_of,
    without_mean,
)
from sentbed_report.study.significance import (
    RESAMPLES,
    Judged,
    Scored,
    estimated,
    judge,
    mean_column,
    with_test,
)
from sentbed_report.study.study_data import CellInfo, StudyData
from sentbed_report.study.summary_tables import Summary, SummaryRow

_ROUNDING = 9
"""Decimals to which scores are compared: means over seeds have rounding errors."""


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
    """Bounds of the interval; None where there are neither items nor several seeds."""
    high: float | None
    over: str
    """What the interval is over: `items`, `seeds` or `items and seeds`; empty without one."""
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
        digits = score_digits([] if self.score is None else [self.score])
        spread = "" if self.std is None else f" ± {number(self.std, digits)}"
        mean = "the mean of " if len(self.tasks) > 1 else ""
        return (
            f"The chosen cell is “{self.cell}”{'' if self.complete else ' so far'}, the best of "
            f"{self.number_compared} by {mean}{', '.join(self.tasks)}: "
            f"{number(self.score, digits)}{spread} over {count(self.seeds, 'seed')}."
        )

    @property
    def number_compared(self) -> str:
        """How many cells were compared, and of how many, if these are more."""
        if self.compared == self.among:
            return count(self.among, "cell")
        return f"{count(self.compared, 'cell')} that can be compared, of {self.among:,} that were tried,"


def select(data: StudyData, summaries: Sequence[Summary], resamples: int = RESAMPLES) -> Selection | None:
    """Return what `choose` does, with the scores of the chosen cell on test data; see `ChosenScore`.

    The choice had seen the weights of the study's seeds: a lucky seed lifts scores on all data alike. So the
    scores are those of fresh seeds, where the study has run some (`Decide.confirm`); otherwise the level of
    the intervals, 5 %, is divided by the number of cells that were tried (Bonferroni), which bounds the
    probability that the interval of whichever cell is chosen misses its mean.
    """
    found = choose(data)
    if found is None or data.decide is None or not found.cell:
        return found
    cell = next(cell for cell in data.cells if cell.name == found.cell)
    deciding = {
        (score.encoder, *_key(score)) for of_seed in _deciding(cell, data.decide) for score in of_seed
    }
    confidence = 1 - (1 - CONFIDENCE) / found.among
    fresh = tuple(run for run in cell.confirmation if run.status == "finished")
    if len(fresh) > 1 and len(fresh) == len(cell.confirmation):
        confidence = CONFIDENCE
        cell = attrs.evolve(cell, runs=fresh)
        alone = attrs.evolve(data, cells=(cell,), baseline=None, groups=False, expected={}, references={})
        summaries = summarise(alone, resamples=resamples)
        found = attrs.evolve(found, fresh_seeds=tuple(run.seed for run in fresh))
    scores = tuple(_on_test_data(cell, summaries, deciding, resamples, confidence))
    return attrs.evolve(found, scores=scores, confidence=confidence)


def choose(data: StudyData) -> Selection | None:
    """Return the cell with the best deciding score; None if the study does not say what decides.

    The score is the mean over seeds. A cell that `[study.stop]` has shown to be worse than another cannot be
    chosen, and of the others only those with the most seeds; of equally good ones it is the first in the
    recipe's order. Cells that lack a deciding task, or have a score that is degenerate or not finite, cannot
    be chosen.
    """
    if data.decide is None:
        return None
    found = {cell.name: _deciding(cell, data.decide) for cell in data.cells}
    tried = {name: scores for name, scores in found.items() if any(scores)}
    tasks = {_key(score): score for scores in tried.values() for of_seed in scores for score in of_seed}
    worse = {} if data.decisions is None else {claim.cell: claim for claim in data.decisions.claims}
    most = max((len(scores) for name, scores in tried.items() if name not in worse), default=0)
    mixed = without_mean([*tasks.values()])
    values: dict[str, list[float]] = {}
    left: list[tuple[str, str]] = []
    for name, scores in tried.items():
        if claim := worse.get(name):
            left.append((name, f"shown to be worse than {claim.than} after {count(claim.seeds, 'seed')}"))
        elif why := _unfit(scores, data.decide.tasks, tasks.keys(), most):
            left.append((name, why))
        elif not mixed:
            values[name] = [value for of_seed in scores if (value := mean_of(of_seed)) is not None]
    base = Selection(
        "",
        "",
        len(tried),
        len(values) + len(tried.keys() & worse.keys()),
        tuple(map(described, tasks.values())),
        data.decide.test_data,
        data.finished == data.total,
        left=tuple(left),
    )
    if not values:
        return attrs.evolve(base, reason=mixed or _none(data, base))
    means = {name: round(fmean(of_cell), _ROUNDING) for name, of_cell in values.items()}
    best, *ties = [name for name, mean in means.items() if mean == max(means.values())]
    return attrs.evolve(
        base,
        cell=best,
        score=fmean(values[best]),
        std=stdev(values[best]) if len(values[best]) > 1 else None,
        seeds=len(values[best]),
        ties=tuple(ties),
    )


_Key = tuple[str, str, str]
"""Evaluator, protocol id and task: what cells have in common, whatever their encoders are called."""


def _key(score: Score) -> _Key:
    return score.evaluator, score.protocol_id, score.task


def _deciding(cell: CellInfo, decide: Decide) -> list[tuple[Score, ...]]:
    """Return the deciding scores of each finished run."""
    return [deciding_scores(run.scores, decide) for run in cell.runs if run.status == "finished"]


def _unfit(
    scores: Sequence[Sequence[Score]], named: Collection[str], tasks: Collection[_Key], most: int
) -> str:
    """Return why a cell cannot be chosen; empty if it can.

    `named` are the tasks that the recipe names, `tasks` those of which any cell has scores.
    """
    if len(scores) < most:
        return f"it has {count(len(scores), 'seed')} of {most}"
    known = {score.task for of_seed in scores for score in of_seed}
    if absent := [task for task in named if task not in known]:
        return f"it has no score of {', '.join(absent)}"
    for of_seed in scores:
        missing = [key[2] for key in tasks if key not in map(_key, of_seed)]
        if missing:
            return f"it has no score of {', '.join(missing)} under every seed"
        if any(map(degenerate_of, of_seed)):
            return "a deciding score is degenerate"
        if not all(math.isfinite(score.value) for score in of_seed):
            return "a deciding score is not finite"
    return ""


def _none(data: StudyData, found: Selection) -> str:
    if found.left:
        return "; ".join(f"{name}: {why}" for name, why in found.left)
    if not data.finished:
        return "nothing has finished"
    where = "test" if found.test_data else "development"
    if data.decide is not None and data.decide.tasks:
        return f"no score of {', '.join(data.decide.tasks)} is on {where} data"
    return f"no score is on {where} data"


def _on_test_data(
    cell: CellInfo,
    summaries: Sequence[Summary],
    deciding: Collection[tuple[str, ...]],
    resamples: int,
    confidence: float,
) -> Iterator[ChosenScore]:
    """Yield the scores of a cell in each table that is on test data, each task by its first metric."""
    for summary in summaries:
        if summary.metric or summary.development:
            continue
        for row in summary.rows:
            if row.cell == cell.name and not row.encoder.endswith(START):
                yield from _of_row(cell, summary, row, deciding, resamples, confidence)


def _of_row(
    cell: CellInfo,
    summary: Summary,
    row: SummaryRow,
    deciding: Collection[tuple[str, ...]],
    resamples: int,
    confidence: float,
) -> Iterator[ChosenScore]:
    tasks: list[dict[int, Score]] = []
    for column, measured in zip(summary.columns, row.cells, strict=True):
        if not column.ranked or measured.value is None:
            continue
        of_task = {
            run.seed: score
            for run in cell.runs
            for score in reversed(run.scores)
            if (score.encoder, score.evaluator, score.protocol_id, score.task, score.metric)
            == (row.encoder, summary.evaluator, summary.protocol, column.task, column.metric)
        }
        scores: Scored = of_task
        if column.average and not of_task:
            scores = mean_column(tasks)
        tasks.append(of_task)
        found = _interval(measured.seeds, scores, resamples, confidence)
        yield ChosenScore(
            summary.evaluator,
            summary.protocol,
            row.encoder,
            column.task,
            column.metric,
            measured.value,
            measured.std,
            len(measured.seeds),
            found.low,
            found.high,
            found.basis or "",
            (row.encoder, summary.evaluator, summary.protocol, column.task) in deciding,
        )


def _interval(values: Mapping[int, float], scores: Scored, resamples: int, confidence: float) -> Judged:
    """Return the interval of a mean over seeds, over the items where all seeds have the same ones."""
    store = ComponentStore(resamples)
    of_seeds = [scores[seed] for seed in values if seed in scores]
    try:
        components = [store.of(score) for score in of_seeds]
        for score in of_seeds[1:]:
            require_same_items(of_seeds[0], score)
    except RunError:
        # Other items under each seed: what they add is in the spread over the seeds.
        components = []
    parts = [one.values for one in components if one is not None]
    if len(parts) < len(values):
        return judge(values, confidence=confidence)
    return with_test(estimated(values, components, parts), confidence)
