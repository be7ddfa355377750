"""Cells of a study that its sampler chooses, batch by batch; it may learn from the scores of earlier batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from sentbed.errors import RunError
from sentbed.helpers import fault
from sentbed_report.degenerate_scores import degenerate_of
from sentbed_report.study.deciding_score import Decide, deciding_scores, mean_of
from sentbed_report.study.read_cell_run import read_run

from sentbed_studies.sampling_config import Sampling
from sentbed_studies.shared_work_plan import Work
from sentbed_studies.study import Study
from sentbed_studies.write_study_directory import note_sampled

ScoreOf: TypeAlias = Callable[[str], float | None]
"""Function from the name of a cell to its score by `[study.decide]` with the first seed; None if it has none."""


def sampled(
    study: Study,
    sampling: Sampling,
    score_of: ScoreOf,
) -> Iterator[tuple[str, ...]]:
    """Yield the names of the cells of each batch to run. If the study has a baseline, it is the first cell.

    The choice depends only on the study and the scores, not on the order in which the cells of a batch
    finish. So a study that is resumed, or run by several processes, runs the same cells. `score_of` is called
    for the cells of a batch when the next batch is requested.

    Raises:
        PluginError: if the sampler does not return as many cells as requested, or returns a cell again.
    """
    names, cells = study.names, cells_for_sampler(study)
    sampler = sampling.sampler
    batch = sampling.batch if sampler.learns else sampling.cells
    # Index of each cell that has been chosen -> its score, if there is one.
    scores: dict[int, float | None] = {}
    while len(scores) < sampling.cells:
        chosen = []
        if study.baseline is not None and not scores:
            chosen.append(names.index(study.baseline))
        count = min(batch, sampling.cells - len(scores)) - len(chosen)
        if count:
            earlier = {**scores, **dict.fromkeys(chosen)}
            chosen += _chosen(sampling, cells, earlier, count)
        yield tuple(names[cell] for cell in chosen)

        scores |= dict.fromkeys(chosen)
        if sampler.learns and len(scores) < sampling.cells:
            for cell in chosen:
                scores[cell] = score_of(names[cell])


def _chosen(
    sampling: Sampling,
    cells: Sequence[Mapping[str, Any]],
    scores: Mapping[int, float | None],
    count: int,
) -> list[int]:
    """Return the indices of the `count` cells that the sampler chooses.

    The cells whose indices are keys of `scores` have been chosen before. Raises `PluginError`.
    """
    sampler = sampling.sampler
    chosen = list(sampler.choose(cells, scores, count, sampling.seed))
    unchosen = set(range(len(cells))) - set(scores)
    if len(chosen) != count or len(unchosen.intersection(chosen)) != count:
        raise fault(
            sampler,
            "choose",
            f"returned {chosen!r:.80}, expected {count} of the indices below {len(cells)} without "
            "those that have been chosen",
        )
    return chosen


def cells_for_sampler(study: Study) -> list[Mapping[str, Any]]:
    """Return the cells of a study as its sampler gets them: each maps the axes to labels or numbers.

    An axis has numbers if every one of its labels has a number.
    """
    numbers: dict[str, dict[str, float]] = {}
    for axis in study.axes:
        if axis.numbers is not None:
            numbers[axis.name] = dict(zip(axis.labels, axis.numbers, strict=True))

    cells: dict[str, Mapping[str, Any]] = {}
    for cell in study.cells:
        point: dict[str, Any] = dict(cell.labels)
        for name, number_of_label in numbers.items():
            point[name] = number_of_label[cell.labels[name]]
        cells[cell.name] = point
    return list(cells.values())


def scores_in(
    directory: Path,
    work: Work,
    seed: int,
    decide: Decide,
) -> ScoreOf:
    """Return a function that reads the score by `decide` of a cell's run with `seed` in a study's directory.

    The function returns None if the run has not finished, if its score is not finite, or if it is degenerate. It
    raises `RunError` if a finished run lacks the score of a task that `decide` names, if it has no deciding
    score, or if its deciding scores have no common mean.
    """
    tasks = {}
    for task in work.tasks:
        if task.cell.seed == seed:
            tasks[task.cell.name] = task

    def score_of(name: str) -> float | None:
        task = tasks[name]
        if not task.is_done(directory):
            return None

        cell = task.cell
        run = read_run(
            directory / task.directory,
            cell.name,
            cell.seed,
            directory,
            task.evaluation_keys,
        )
        scores = deciding_scores(run.scores, decide)
        score = mean_of(scores)
        scored = {score.task for score in scores}
        missing = [task for task in decide.tasks if task not in scored]
        if score is None or missing:
            of_tasks = f" of {', '.join(missing)}" if missing else ""
            raise RunError(
                f"the run `{directory / task.directory}` has no score{of_tasks} to choose further cells by; "
                "let `[study.decide]` name tasks that it has, or evaluate on development data"
            )

        if not math.isfinite(score) or any(map(degenerate_of, scores)):
            return None
        return score

    return score_of


def sampled_parts(
    study: Study,
    sampling: Sampling,
    work: Work,
    directory: Path,
) -> Generator[Work, None, tuple[str, ...]]:
    """Yield the runs of each batch of cells that a sampler chooses, with the first seed of the study.

    Return the names of all chosen cells. The caller runs a batch before it requests the next one. The cells
    of a batch are written to `study.json` before they are run.
    """
    first_seed = study.seeds[0]
    score_of = scores_in(directory, work, first_seed, study.table.decides_by)
    names: tuple[str, ...] = ()
    for batch in sampled(study, sampling, score_of):
        names += batch
        note_sampled(directory, names)
        yield work.of(study.cells_of(batch, [first_seed]))
    return names


def first_batch(study: Study) -> tuple[str, ...]:
    """Return the names of the first batch, which does not depend on scores; empty without a sampler."""
    sampling = study.table.sampler
    if sampling is None:
        return ()
    return next(sampled(study, sampling, lambda _: None))


def number_of_runs(study: Study, work: Work) -> int:
    """Return the number of runs of a study. With a sampler, only the cells that it chooses count."""
    sampling = study.table.sampler
    if sampling is None:
        return len(work.tasks)
    return sampling.cells * len(study.seeds)
