"""Reading of a study's directory: axes and cells from `study.json`, and the current state of each run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import attrs
from sentbed.errors import RunError
from sentbed_common import is_locked

from sentbed_report.study.read_cell_run import (
    manifest_status,
    missing_evaluations,
    read_run,
)
from sentbed_report.study.study_data import (
    RUNS,
    CellRun,
    CellStatus,
    StudyData,
    with_runs,
)
from sentbed_report.study.study_file import STUDY, read_study_file

RECIPE = "study.toml"

LOCKS = "locks"
"""Subdirectory of a study for the locks of its runs."""


def is_study(directory: Path) -> bool:
    """Whether a directory contains a study."""
    return (directory / STUDY).is_file()


def read_data(directory: str | Path, study: StudyData | None = None) -> StudyData:
    """Return the results so far of the study in a directory; `study` is by default the content of `study.json`.

    Raises:
        RunError: if the directory contains no study, or a damaged one.
    """
    place = Path(directory)
    study = study or read_study_file(place)
    return attrs.evolve(
        study,
        cells=with_runs(study.cells, partial(_with_state, place)),
        recipe=_recipe(place),
        directory=place,
    )


def _recipe(place: Path) -> str:
    try:
        return (place / RECIPE).read_text("utf-8")
    except OSError as error:
        raise RunError(
            f"`{place}` is no study (no `{RECIPE}` in it); name the directory of a study"
        ) from error


def _with_state(place: Path, run: CellRun) -> CellRun:
    """Return a run in its current state, with its scores if it has finished."""
    directory = RUNS / run.key
    status = status_of(place, directory)
    if status == "waiting":
        return run
    if status in ("running", "interrupted"):
        return attrs.evolve(run, status=status, directory=directory)
    path = place / directory
    read = read_run(path, run.cell, run.seed, place, run.evaluations)
    return attrs.evolve(read, status=status, prompt=run.prompt, key=run.key)


def status_of(place: Path, directory: Path) -> CellStatus:
    """Return the status of the run in `directory`, which is relative to `place`, the study's directory."""
    run = place / directory
    status = manifest_status(run)
    if status == "finished":
        return "finished"
    if is_locked(lock_of(place, run)):
        return "running"
    if status is None:
        return "waiting"
    if status == "failed":
        return "failed"
    return "interrupted"


def lock_of(place: Path, run: Path) -> Path:
    """Return the lock file of a run of the study in `place`."""
    return place / LOCKS / f"{run.name}.lock"


def is_finished(run: Path, evaluations: Sequence[str] = ()) -> bool:
    """Whether the run in a directory has finished, and has the scores of all evaluations with these keys."""
    if manifest_status(run) != "finished":
        return False
    return not missing_evaluations(run, evaluations)
