"""Reading of a study's directory: axes and cells from `study.json`, and the current state of each run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    CellInfo,
    CellRun,
    CellStatus,
    StudyData,
    with_decided_splits,
)
from sentbed_report.study.study_record import (
    STUDY,
    RunRecord,
    StudyRecord,
    read_study_record,
)
from sentbed_report.study.study_settings import settings_of

RECIPE = "study.toml"

LOCKS = "locks"
"""Subdirectory of a study for the locks of its runs."""


def is_study(directory: Path) -> bool:
    """Whether a directory contains a study."""
    return (directory / STUDY).is_file()


def read_data(directory: str | Path, record: StudyRecord | None = None) -> StudyData:
    """Return the results so far of the study in a directory; `record` is by default the content of `study.json`.

    Raises:
        RunError: if the directory contains no study, or a damaged one.
    """
    place = Path(directory)
    record = record or read_study_record(place)
    return StudyData(
        name=record.name,
        axes=record.axes,
        cells=with_decided_splits(_cells(place, record)),
        baseline=record.baseline,
        seeds=record.seeds,
        excluded=record.excluded,
        recipe=_recipe(place),
        directory=place,
        prompts=record.prompts,
        **settings_of(record),
    )


def _recipe(place: Path) -> str:
    try:
        return (place / RECIPE).read_text("utf-8")
    except OSError as error:
        raise RunError(
            f"`{place}` is no study (no `{RECIPE}` in it); name the directory of a study"
        ) from error


def _cells(
    place: Path,
    record: StudyRecord,
) -> list[CellInfo]:
    """Return the cells with their runs."""
    cells = []
    for cell in record.cells:
        runs = _runs(place, cell.name, cell.runs)
        fresh: tuple[CellRun, ...] = ()
        confirmation = record.confirmation
        if confirmation is not None and confirmation.cell == cell.name:
            fresh = _runs(place, cell.name, confirmation.runs)

        cells.append(CellInfo(cell.name, cell.labels, runs, cell.differences, fresh))
    return cells


def _runs(
    place: Path,
    cell: str,
    records: Iterable[RunRecord],
) -> tuple[CellRun, ...]:
    return tuple(_run(place, cell, record) for record in records)


def _run(
    place: Path,
    cell: str,
    run: RunRecord,
) -> CellRun:
    """Return a run of a cell in its current state, with its scores if it has finished."""
    directory = run.directory
    status = status_of(place, directory)
    if status in ("finished", "failed"):
        path = place / directory
        read = read_run(path, cell, run.seed, place, run.evaluations)
        return attrs.evolve(read, status=status, prompt=run.prompt)
    if status == "waiting":
        return CellRun(cell, run.seed, status, prompt=run.prompt)
    return CellRun(cell, run.seed, status, directory, prompt=run.prompt)


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
