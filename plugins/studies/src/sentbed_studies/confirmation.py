"""Runs of the chosen cell with fresh seeds: `confirm` of `[study.decide]`.

The chosen cell is the one with the best deciding score. Fresh seeds are larger than the seeds of the study.
"""

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
    """Number of runs with fresh seeds."""
    work: Work | None = None
    """The runs with fresh seeds; None until the chosen cell is known."""
    unfinished: tuple[Task, ...] = ()
    """Runs of `work` that have not finished."""

    @property
    def number_left(self) -> int:
        """Number of runs with fresh seeds that have not finished."""
        return self.runs if self.work is None else len(self.unfinished)


def number_of_fresh_runs(study: Study) -> int:
    """Return how many runs with fresh seeds a study asks for, with all prompts together."""
    decide = study.table.decide
    if decide is None:
        return 0
    return decide.confirm * max(len(study.prompts), 1)


def fresh_seeds_in_words(study: Study) -> str:
    """Return in words how the chosen cell is run, such as `3 fresh seeds under each of 4 prompts`."""
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
    """Return the runs of a study's chosen cell with fresh seeds.

    Return None if the study asks for no such runs, or if no cell can be chosen.

    Args:
        study: The study.
        work: All runs of the study, without those with fresh seeds.
        directory: The study's directory.
        keys: Computes the keys of the runs with fresh seeds: hashes by which finished runs are recognised.
        share: Whether these runs share stages and forward passes.
        is_over: Whether all runs of `work` have ended, so that a cell can be chosen.

    Raises:
        RunError: if a finished run in `directory` cannot be read.
    """
    decide = study.table.decide
    runs = number_of_fresh_runs(study)
    if decide is None or not runs:
        return None

    of_unknown_cell = Confirmation(runs)
    if not is_over or not has_same_runs(directory, study, work):
        return of_unknown_cell

    data = attrs.evolve(read_data(directory), decide=decide)
    chosen = choose(data)
    if chosen is None or not chosen.complete:
        return of_unknown_cell

    if not chosen.cell:
        return None

    fresh = _with_fresh_seeds(study, decide, chosen.cell, keys, share)
    unfinished = tuple(task for task in fresh.tasks if not task.is_done(directory))
    return Confirmation(runs, fresh, unfinished)


def _with_fresh_seeds(
    study: Study,
    decide: Decide,
    name: str,
    keys: CellKeys,
    share: bool,
) -> Work:
    """Return the runs of the cell `name`, with each prompt, under the seeds after the study's largest seed."""
    # `study.cells` has an entry for each prompt and seed of a cell; of each prompt, any entry will do.
    entry_of_prompt = {}
    for entry in study.cells:
        if entry.name == name:
            entry_of_prompt[entry.prompt] = entry

    first = max(study.seeds) + 1
    fresh_entries = []
    for entry in entry_of_prompt.values():
        for seed in range(first, first + decide.confirm):
            run = attrs.evolve(entry.recipe.run, seed=seed)
            recipe = attrs.evolve(entry.recipe, run=run)
            fresh_entries.append(attrs.evolve(entry, seed=seed, recipe=recipe))
    return plan_work(fresh_entries, keys, share)
