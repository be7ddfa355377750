"""Writes the directory of a study; `sentbed_report.study.read_study_directory` reads it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import tomli_w
from sentbed.errors import DataError, RunError
from sentbed.helpers import write_atomic
from sentbed.protocols import Recipe
from sentbed.tools import differences, unstructure
from sentbed_report.study.read_study_directory import RECIPE
from sentbed_report.study.study_data import AxisInfo
from sentbed_report.study.study_record import (
    CellRecord,
    ConfirmationRecord,
    RunRecord,
    StudyRecord,
    read_study_record,
    write_study_record,
)
from sentbed_report.study.study_settings import settings_of

from sentbed_studies.shared_work_plan import Work
from sentbed_studies.study import Identity, Study
from sentbed_studies.study_config import StudyTable


def write_study(
    directory: Path,
    study: Study,
    work: Work,
) -> None:
    """Write `study.json` and the recipe of a study. Several processes may run the same study.

    Raises:
        RunError: if the directory holds a study with another name that has no run in common with this one.
    """
    record = _record(study, work)
    before = _record_before(directory)
    if before is not None:
        if before.name != record.name and set(_keys(before)).isdisjoint(_keys(record)):
            raise RunError(
                f"`{directory}` holds the study `{before.name}`, and this one is `{record.name}`; choose "
                "another `--out`"
            )
        record = _with_choices_before(record, before)

    directory.mkdir(parents=True, exist_ok=True)
    write_atomic(directory / RECIPE, _recipe(study, directory))
    if record != before:
        write_study_record(directory, record)


def _record_before(directory: Path) -> StudyRecord | None:
    """Return the record of the study in a directory; None if there is none, or if it cannot be read."""
    try:
        return read_study_record(directory)
    except (RunError, DataError):
        return None


def _with_choices_before(record: StudyRecord, before: StudyRecord) -> StudyRecord:
    """Return `record` with the choices that the earlier record `before` has, if they still hold.

    The runs of the chosen cell with fresh seeds still hold if the keys of this cell and the number of fresh
    seeds are the same.
    """
    confirmation = before.confirmation
    if confirmation is not None and record.decide is not None:
        keys = _keys(record, confirmation.cell)
        is_same_cell = keys == _keys(before, confirmation.cell)
        fresh_seeds = {run.seed for run in confirmation.runs}
        if is_same_cell and len(fresh_seeds) == record.decide.confirm:
            record = attrs.evolve(record, confirmation=confirmation)
    return record


def has_same_runs(
    directory: Path,
    study: Study,
    work: Work,
) -> bool:
    """Whether the study in `directory` has the same cells and runs as `work`, the runs of the whole study."""
    before = _record_before(directory)
    if before is None:
        return False
    return _runs_of_cells(before.cells) == _runs_of_cells(_cells(study, work))


def _runs_of_cells(
    cells: Sequence[CellRecord],
) -> list[tuple[str, tuple[RunRecord, ...]]]:
    return [(cell.name, cell.runs) for cell in cells]


def note_confirmation(directory: Path, work: Work) -> None:
    """Write the runs of the chosen cell with fresh seeds, `work`, into `study.json`."""
    runs = tuple(_run_records(work).values())
    confirmation = ConfirmationRecord(work.tasks[0].cell.name, runs)
    record = read_study_record(directory)
    if record.confirmation != confirmation:
        write_study_record(directory, attrs.evolve(record, confirmation=confirmation))


def _keys(record: StudyRecord, name: str = "") -> list[str]:
    """Return the keys of the runs of the cell `name`, or of all cells if `name` is empty."""
    keys = []
    for cell in record.cells:
        if name in ("", cell.name):
            keys += [run.key for run in cell.runs]
    return keys


def _record(study: Study, work: Work) -> StudyRecord:
    """Return the content of `study.json` at the beginning of a study, before any cell is chosen."""
    axes = []
    for axis in study.axes:
        paths = axis.paths(study.document)
        axes.append(AxisInfo(axis.name, axis.labels, axis.numbers, paths))

    return StudyRecord(
        name=study.name,
        axes=tuple(axes),
        baseline=study.baseline,
        excluded=tuple((cell.name, cell.reasons) for cell in study.excluded),
        prompts=study.prompts,
        cells=_cells(study, work),
        **settings_of(study.table),
    )


def _recipe(study: Study, directory: Path) -> str:
    """Return the recipe with extended recipes and overrides applied, after a comment that names its file."""
    document = study.document
    comment = ""
    if document.file is not None:
        file = Path(os.path.relpath(document.file, directory))
        comment = f"# From {file.as_posix()} and the recipes that it extends\n"
    return comment + tomli_w.dumps(dict(document.data))


def _cells(study: Study, work: Work) -> tuple[CellRecord, ...]:
    """Return the records of all cells in the order of the study.

    Each has the differences between its recipe and the recipe of the baseline.
    """
    recipes: dict[str, Any] = {}
    for cell in study.cells:
        if cell.name not in recipes:
            recipes[cell.name] = _recipe_to_compare(cell.recipe)
    baseline = recipes[study.baseline or study.names[0]]

    runs = _run_records(work)
    runs_of_cell: dict[str, list[RunRecord]] = {}
    labels = {}
    for cell in study.cells:
        runs_of_cell.setdefault(cell.name, []).append(runs[cell.identity])
        labels[cell.name] = cell.labels

    cells = []
    for name, of_cell in runs_of_cell.items():
        differing = tuple(differences(baseline, recipes[name]))
        cells.append(CellRecord(name, labels[name], differing, tuple(of_cell)))
    return tuple(cells)


def _run_records(work: Work) -> dict[Identity, RunRecord]:
    """Return the record of the run of each cell."""
    records = {}
    for task in work.tasks:
        for cell in task.cells:
            keys = task.keys_of_cells[cell.identity]
            records[cell.identity] = RunRecord(cell.seed, task.key, keys, cell.prompt)
    return records


def _recipe_to_compare(recipe: Recipe) -> Any:
    """Return a cell's recipe as a table without seed and `[study]`."""
    table = unstructure(recipe.without(StudyTable))
    table["run"].pop("seed")
    return table
