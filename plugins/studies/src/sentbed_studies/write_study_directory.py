"""Writes the directory of a study; `sentbed_report.study.read_study_directory` reads it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import tomli_w
from sentbed.errors import DataError, RunError
from sentbed.helpers import write_atomic
from sentbed_report.study.read_study_directory import RECIPE
from sentbed_report.study.study_data import (
    AxisInfo,
    CellInfo,
    CellRun,
    StudyData,
)
from sentbed_report.study.study_file import read_study_file, write_study_file
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
    name = _name_before(directory)
    if name not in ("", study.name):
        raise RunError(
            f"`{directory}` holds the study `{name}`, and this one is `{study.name}`; choose another "
            "`--out`, or give the study its name"
        )

    directory.mkdir(parents=True, exist_ok=True)
    write_study_file(directory, unstarted(study, runs))
    write_atomic(directory / RECIPE, _recipe(study, directory))


def _name_before(directory: Path) -> str:
    """Return the name of the study in a directory; empty if there is none, or if it cannot be read."""
    try:
        return read_study_file(directory).name
    except (RunError, DataError):
        return ""


def unstarted(study: Study, runs: Sequence[Run]) -> StudyData:
    """Return the data of a study none of whose runs has begun; `runs` were chosen so far, with their keys.

    Runs with seeds that the study does not have are those of the chosen cell with fresh seeds.
    """
    axes = []
    for axis in study.axes:
        axes.append(AxisInfo(axis.name, axis.labels, axis.numbers))

    cells = []
    for name in study.names:
        of_cell = [run for run in runs if run.name == name]
        if not of_cell:
            continue
        planned = []
        fresh = []
        for run in of_cell:
            unstarted_run = CellRun(
                name,
                run.seed,
                evaluations=run.evaluations,
                prompt=run.prompt,
                key=run.key,
            )
            if run.seed in study.seeds:
                planned.append(unstarted_run)
            else:
                fresh.append(unstarted_run)
        cells.append(
            CellInfo(
                name,
                of_cell[0].labels,
                tuple(planned),
                confirmation=tuple(fresh),
            )
        )

    return StudyData(
        name=study.name,
        axes=tuple(axes),
        cells=tuple(cells),
        baseline=study.baseline,
        seeds=study.seeds,
        excluded=tuple((each.cell.name, each.reasons) for each in study.excluded),
        prompts=study.prompts,
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
