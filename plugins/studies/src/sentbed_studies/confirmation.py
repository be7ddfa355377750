"""Runs of the chosen cell with fresh seeds: `confirm` of `[study.decide]`."""

from __future__ import annotations

from pathlib import Path

import attrs
from sentbed_report.formatting import count
from sentbed_report.study.deciding_score import Decide
from sentbed_report.study.read_study_directory import read_data
from sentbed_report.study.selection import choose

from sentbed_studies.cell_keys import CellKeys
from sentbed_studies.shared_work_plan import Task, Work, plan_work
from sentbed_studies.study import Study
from sentbed_studies.write_study_directory import has_same_runs


@attrs.frozen(eq=False)
class Confirmation:
    """Runs of the chosen cell with fresh seeds."""

    runs: int
    """Number of runs."""
    work: Work | None = None
    """The runs; None until the chosen cell is known."""
    left: tuple[Task, ...] = ()
    """Runs of `work` that have not finished."""

    @property
    def number_left(self) -> int:
        """Number of runs that have not finished."""
        return self.runs if self.work is None else len(self.left)


def fresh_seeds_in_words(study: Study) -> str:
    """Return the number of fresh seeds and of prompts with which the chosen cell is run, as text."""
    decide = study.table.decide
    number = 0 if decide is None else decide.confirm
    seeds = count(number, "fresh seed")
    if not study.prompts:
        return seeds
    return f"{seeds} under each of {count(len(study.prompts), 'prompt')}"


def confirmation_of(
    study: Study,
    work: Work,
    directory: Path,
    keys: CellKeys,
    share: bool,
    is_over: bool,
) -> Confirmation | None:
    """Return the runs with fresh seeds of a study; None if it asks for none, or no cell could be chosen.

    `work` is the work of the whole study. The chosen cell is known when all needed runs have ended (`is_over`).

    Raises:
        RunError: if a finished run in `directory` cannot be read.
    """
    decide = study.table.decide
    if decide is None or not decide.confirm:
        return None

    runs = decide.confirm * max(len(study.prompts), 1)
    unknown = Confirmation(runs)
    # With a sampler, `study.json` says whether all cells have been chosen.
    may_be_known = is_over or study.table.sampler is not None
    if not (may_be_known and has_same_runs(directory, study, work)):
        return unknown

    data = attrs.evolve(read_data(directory), decide=decide)
    if data.sampled is not None and len(data.sampled.names) < data.sampled.cells:
        return unknown

    chosen = choose(data)
    if chosen is None or not chosen.complete:
        return unknown

    if not chosen.cell:
        return None

    fresh = _with_fresh_seeds(study, decide, chosen.cell, keys, share)
    left = tuple(task for task in fresh.tasks if not task.is_done(directory))
    return Confirmation(runs, fresh, left)


def _with_fresh_seeds(
    study: Study, decide: Decide, name: str, keys: CellKeys, share: bool
) -> Work:
    """Return the runs of the cell `name` with the seeds that follow the study's largest seed."""
    under_prompts = {cell.prompt: cell for cell in study.cells if cell.name == name}
    first = max(study.seeds) + 1
    cells = []
    for chosen in under_prompts.values():
        for seed in range(first, first + decide.confirm):
            recipe = attrs.evolve(
                chosen.recipe, run=attrs.evolve(chosen.recipe.run, seed=seed)
            )
            cells.append(attrs.evolve(chosen, seed=seed, recipe=recipe))
    return plan_work(cells, keys, share)
