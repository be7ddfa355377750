"""The runs of the chosen cell with fresh seeds: `confirm` of `[study.decide]`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
from sentbed_report.study.deciding_score import Decide
from sentbed_report.study.read_study_directory import read_data
from sentbed_report.study.selection import Selection, choose

from sentbed_studies.cell_keys import CellKeys
from sentbed_studies.shared_work_plan import Task, Work, plan_work
from sentbed_studies.study import Study
from sentbed_studies.write_study_directory import has_same_runs


@attrs.frozen
class Confirmation:
    """Runs with fresh seeds that a study asks for."""

    runs: int
    """Their number."""
    cell: str = ""
    """Name of the chosen cell; empty as long as it is not known."""
    left: tuple[Path, ...] | None = None
    """Directories of those that have not finished; None as long as the cell is not known."""

    @property
    def number_left(self) -> int:
        """Number of runs that have not finished."""
        return self.runs if self.left is None else len(self.left)


def confirmation_of(
    study: Study, work: Work, directory: Path, keys: CellKeys, share: bool, needless: Sequence[Task] = ()
) -> Confirmation | None:
    """Return the runs with fresh seeds of a study; None if it asks for none.

    The cell is known if all runs of `work`, the whole study's, have finished but those that are `needless`.

    Raises:
        RunError: if what has finished in `directory` cannot be read.
    """
    decide = study.table.decide
    if decide is None or not decide.confirm:
        return None
    # Of a sample it is read which cells have been run; of other studies a look at the manifests is enough.
    may_be_known = study.table.sampler is not None or work.without(needless).is_done(directory)
    if not (may_be_known and has_same_runs(directory, study, work)):
        return Confirmation(decide.confirm)
    chosen = _final_choice(study, decide, directory)
    if chosen is None:
        return Confirmation(decide.confirm)
    if not chosen.cell:
        # None could be chosen, and nothing follows.
        return None
    fresh = _with_fresh_seeds(study, decide, chosen.cell, keys, share)
    left = tuple(task.directory for task in fresh.tasks if not task.is_done(directory))
    return Confirmation(decide.confirm, fresh.tasks[0].cell.name, left)


def work_of_chosen_cell(study: Study, directory: Path, keys: CellKeys, share: bool) -> Work | None:
    """Return the runs of the chosen cell with fresh seeds; None if it is not known, or none are asked for.

    The seeds are those that follow the largest one of the study.

    Raises:
        RunError: if what has finished in `directory` cannot be read.
    """
    decide = study.table.decide
    if decide is None or not decide.confirm:
        return None
    chosen = _final_choice(study, decide, directory)
    if chosen is None or not chosen.cell:
        return None
    return _with_fresh_seeds(study, decide, chosen.cell, keys, share)


def _final_choice(study: Study, decide: Decide, directory: Path) -> Selection | None:
    """Return what `choose` says when all runs of a study have finished; None before."""
    data = attrs.evolve(read_data(directory), decide=decide)
    if data.sampled is not None and len(data.sampled.names) < data.sampled.cells:
        return None
    chosen = choose(data)
    return chosen if chosen is not None and chosen.complete else None


def _with_fresh_seeds(study: Study, decide: Decide, name: str, keys: CellKeys, share: bool) -> Work:
    """Return the runs of the cell `name` with the seeds that follow the largest one of the study."""
    chosen = next(cell for cell in study.cells if cell.name == name)
    first = max(study.seeds) + 1
    cells = []
    for seed in range(first, first + decide.confirm):
        recipe = attrs.evolve(chosen.recipe, run=attrs.evolve(chosen.recipe.run, seed=seed))
        cells.append(attrs.evolve(chosen, seed=seed, recipe=recipe))
    return plan_work(cells, keys, share)
