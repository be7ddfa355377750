"""Writes the directory of a study; `sentbed_report.study.read_study_directory` reads it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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

from sentbed_studies.study import Run, Study


def write_study(
    directory: Path,
    study: Study,
    runs: Sequence[Run],
) -> None:
    """Write `study.json` and the recipe of a study. Several processes may run the same study.

    Args:
        directory: Directory of the study.
        study: The study.
        runs: The runs that were chosen so far, with their keys.

    Raises:
        RunError: if the directory holds a study with another name.
    """
    record = study_record(study, runs)
    before = _record_before(directory)
    if before is not None and before.name != record.name:
        raise RunError(
            f"`{directory}` holds the study `{before.name}`, and this one is `{record.name}`; choose another "
            "`--out`, or give the study its name"
        )

    directory.mkdir(parents=True, exist_ok=True)
    if record != before:
        write_study_record(directory, record)
    write_atomic(directory / RECIPE, _recipe(study, directory))


def _record_before(directory: Path) -> StudyRecord | None:
    """Return the record of the study in a directory; None if there is none, or if it cannot be read."""
    try:
        return read_study_record(directory)
    except (RunError, DataError):
        return None


def study_record(study: Study, runs: Sequence[Run]) -> StudyRecord:
    """Return the content of `study.json`; `runs` are the runs that were chosen so far, with their keys.

    Runs with seeds that the study does not have are those of the chosen cell with fresh seeds. Each cell has the
    differences between its recipe and the recipe of the baseline, or of the first cell.
    """
    axes = []
    for axis in study.axes:
        paths = axis.paths(study.document)
        axes.append(AxisInfo(axis.name, axis.labels, axis.numbers, paths))

    runs_of_cell: dict[str, list[Run]] = {}
    fresh = []
    for run in runs:
        if run.seed in study.seeds:
            runs_of_cell.setdefault(run.name, []).append(run)
        else:
            fresh.append(run)

    of_baseline = (run for run in study.runs if run.name == study.baseline)
    baseline = _recipe_to_compare(next(of_baseline, study.runs[0]).recipe)
    cells = []
    for name in study.names:
        of_cell = runs_of_cell.get(name)
        if not of_cell:
            continue
        first = of_cell[0]
        differing = tuple(differences(baseline, _recipe_to_compare(first.recipe)))
        cells.append(CellRecord(name, first.labels, differing, _records(of_cell)))

    confirmation = None
    if fresh:
        confirmation = ConfirmationRecord(fresh[0].name, _records(fresh))

    return StudyRecord(
        name=study.name,
        axes=tuple(axes),
        baseline=study.baseline,
        excluded=tuple((each.cell.name, each.reasons) for each in study.excluded),
        prompts=study.prompts,
        cells=tuple(cells),
        confirmation=confirmation,
        **settings_of(study.table),
    )


def _records(runs: Sequence[Run]) -> tuple[RunRecord, ...]:
    """Return the records of runs."""
    records = []
    for run in runs:
        records.append(RunRecord(run.seed, run.key, run.evaluations, run.prompt))
    return tuple(records)


def _recipe_to_compare(recipe: Recipe) -> Any:
    """Return a run's recipe as a table without seed."""
    table = unstructure(recipe)
    table["run"].pop("seed")
    return table


def _recipe(study: Study, directory: Path) -> str:
    """Return the recipe with extended recipes and overrides applied, after a comment that names its file."""
    document = study.document
    comment = ""
    if document.file is not None:
        file = Path(os.path.relpath(document.file, directory))
        comment = f"# From {file.as_posix()} and the recipes that it extends\n"
    return comment + tomli_w.dumps(dict(document.data))
