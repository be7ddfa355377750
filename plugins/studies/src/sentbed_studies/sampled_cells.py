"""Cells of a study that its sampler chooses, batch by batch, by the scores of those before."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from sentbed.errors import RunError
from sentbed.helpers import fault
from sentbed_report.degenerate_scores import degenerate_of
from sentbed_report.study.deciding_score import Decide, deciding_scores, mean_of

from sentbed_studies.deciding_evidence import missing_tasks, read_task
from sentbed_studies.sampling_config import Sampling
from sentbed_studies.shared_work_plan import Work
from sentbed_studies.study import Study
from sentbed_studies.write_study_directory import note_sampled

ScoreOf: TypeAlias = Callable[[str], float | None]
"""Name of a cell that was run with the first seed -> its score, higher is better; None if it has none."""


def sampled(
    study: Study, sampling: Sampling, score_of: ScoreOf
) -> Iterator[tuple[str, ...]]:
    """Yield the names of the cells to run next, batch by batch; the baseline comes first.

    They follow from the study and the scores alone, in whatever order the cells of a batch finish: a study
    that is resumed, or run by several processes, has the same cells. `score_of` is asked of the cells of a
    batch when the next one is wanted.

    Raises:
        PluginError: if the sampler returns anything but cells that have not been chosen.
    """
    names, cells = study.names, points(study)
    sampler = sampling.sampler
    batch = sampling.batch if sampler.learns else sampling.cells
    scores: dict[int, float | None] = {}
    while len(scores) < sampling.cells:
        chosen = []
        if study.baseline is not None and not scores:
            chosen.append(names.index(study.baseline))
        count = min(batch, sampling.cells - len(scores)) - len(chosen)
        if count:
            chosen += _chosen(
                sampling, cells, {**scores, **dict.fromkeys(chosen)}, count
            )
        yield tuple(names[cell] for cell in chosen)
        scores |= dict.fromkeys(chosen)
        if sampler.learns and len(scores) < sampling.cells:
            scores |= {cell: score_of(names[cell]) for cell in chosen}


def _chosen(
    sampling: Sampling,
    cells: Sequence[Mapping[str, Any]],
    scores: Mapping[int, float | None],
    count: int,
) -> list[int]:
    """Return the cells that the sampler chooses after those of `scores`."""
    sampler = sampling.sampler
    chosen = list(sampler.choose(cells, scores, count, sampling.seed))
    free = set(range(len(cells))) - set(scores)
    if len(chosen) != count or len(free.intersection(chosen)) != count:
        raise fault(
            sampler,
            "choose",
            f"returned {chosen!r:.80}, expected {count} of the indices below {len(cells)} without "
            "those that have been chosen",
        )
    return chosen


def points(study: Study) -> list[Mapping[str, Any]]:
    """Return the cells of a study for a sampler: axis -> label, or its number if all labels have one."""
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


def scores_in(directory: Path, work: Work, seed: int, decide: Decide) -> ScoreOf:
    """Return the function that reads the deciding score of a cell's run with `seed` in a study's directory.

    A run that has not finished has none, nor has one whose score is not a finite number or is degenerate. The
    function raises `RunError` if a run has finished without a score of each task that `decide` names, or
    without any that decides, or if these have no mean.
    """
    tasks = {task.cell.name: task for task in work.tasks if task.cell.seed == seed}

    def score_of(name: str) -> float | None:
        task = tasks[name]
        if not task.is_done(directory):
            return None
        scores = deciding_scores(read_task(task, directory).scores, decide)
        score = mean_of(scores)
        missing = missing_tasks(scores, decide)
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
    study: Study, sampling: Sampling, work: Work, directory: Path
) -> Generator[Work, None, tuple[str, ...]]:
    """Yield the work of each batch that a sampler chooses, with the first seed; return all these cells.

    A batch is to be done before the next one is asked for. `study.json` has the cells that have been chosen.
    """
    first = study.seeds[0]
    names: tuple[str, ...] = ()
    for batch in sampled(
        study, sampling, scores_in(directory, work, first, study.table.decides_by)
    ):
        names += batch
        note_sampled(directory, names)
        yield work.of(
            [cell for cell in study.cells if cell.name in batch and cell.seed == first]
        )
    return names


def first_batch(study: Study) -> tuple[str, ...]:
    """Return the cells that are run first, whatever their scores; none without a sampler."""
    sampling = study.table.sampler
    if sampling is None:
        return ()
    return next(sampled(study, sampling, lambda _: None))


def runs_of(study: Study, work: Work) -> int:
    """Return the number of runs of a study, with those of cells that have not been chosen yet."""
    sampling = study.table.sampler
    if sampling is None:
        return len(work.tasks)
    return sampling.cells * len(study.seeds)
