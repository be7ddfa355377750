"""Reading of a study's directory: its axes and cells from `study.json`, and each run as far as it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
from sentbed.errors import RunError
from sentbed.helpers import foreign, read_file, require_types
from sentbed_common import is_locked

from sentbed_report.study.decisions import Decisions, read_decisions
from sentbed_report.study.read_cell_run import (
    manifest_status,
    missing_evaluations,
    read_run,
)
from sentbed_report.study.study_data import (
    CellInfo,
    CellRun,
    CellStatus,
    Sampled,
    StudyData,
    with_decided_splits,
)
from sentbed_report.study.study_record import (
    STUDY,
    RunRecord,
    StudyRecord,
    read_study_record,
)

RECIPE = "study.toml"

LOCKS = "locks"
"""Directory of the locks of a study's runs."""


def is_study(directory: Path) -> bool:
    """Whether there is a study in a directory."""
    return (directory / STUDY).is_file()


def read_data(directory: str | Path) -> StudyData:
    """Return the results so far of the study in a directory.

    Raises:
        RunError: where there is none.
    """
    place = Path(directory)
    record = read_study_record(place)
    with foreign(
        RunError, f"`{place / STUDY}` is damaged", "run `sentbed study` there again"
    ):
        _require_axes(record)
        written = read_decisions(place)
        # Without `[study.stop]`, which has been taken out, nothing is stopped any more.
        decisions = None if record.stop is None else written
        sampled = _sampled(record)
        planned = with_decided_splits(_cells(place, record, sampled))
        cells = tuple(_without_needless_runs(cell, decisions) for cell in planned)
        return StudyData(
            name=record.name,
            axes=record.axes,
            cells=cells,
            baseline=record.baseline,
            seeds=record.seeds,
            excluded=record.excluded,
            expected=record.expected,
            order=record.order,
            recipe=_recipe(place),
            directory=place,
            references=record.references,
            published=record.published,
            ranks=record.ranks,
            colour=record.colour,
            cost=record.cost,
            decide=record.decide,
            decisions=decisions,
            looks=_looks(record, written),
            needless=_number_of_runs(planned) - _number_of_runs(cells),
            sampled=sampled,
            equivalence=record.equivalence,
            family=record.family,
            groups=record.groups,
            prompts=record.prompts,
            prompt_factor=record.prompt_factor,
        )


def _recipe(place: Path) -> str:
    try:
        return read_file(place / RECIPE).decode()
    except OSError as error:
        message = (
            f"`{place}` is no study (no `{RECIPE}` in it); name the directory of one"
        )
        raise RunError(message) from error


def _require_axes(record: StudyRecord) -> None:
    """Raise `ValueError` if a cell has not one of the labels of each axis, or ranks are within no axis.

    Also if a run has a prompt that the study has not.
    """
    labels = {axis.name: axis.labels for axis in record.axes}
    for cell in record.cells:
        if cell.labels.keys() != labels.keys():
            raise ValueError(
                f"the cell `{cell.name}` has labels on other axes than the study has"
            )
        for axis, label in cell.labels.items():
            if label not in labels[axis]:
                raise ValueError(
                    f"the cell `{cell.name}` has the unknown label {label!r:.80}"
                )
    prompts = record.prompts or ("",)
    for cell in record.cells:
        for run in cell.runs:
            if run.prompt not in prompts:
                raise ValueError(
                    f"a run of `{cell.name}` has the unknown prompt {run.prompt!r:.80}"
                )
    for axis in record.ranks or ():
        if axis not in labels:
            raise ValueError(f"`ranks` has the unknown axis {axis!r:.80}")


def _looks(record: StudyRecord, decisions: Decisions | None) -> int:
    """Return the largest number of looks that a study makes, by its recipe, or has made by an earlier one."""
    numbers = [1]
    if decisions is not None:
        numbers += [len(rule.looks) for rule in (decisions.rule, *decisions.earlier)]
    if record.stop is not None:
        numbers.append(len(record.seeds) - int(record.stop["first_look"]) + 1)
    return max(numbers)


def _sampled(record: StudyRecord) -> Sampled | None:
    if record.sampler is None:
        return None
    table = record.sampler
    sampled = Sampled(
        table["use"], table["seed"], table["cells"], len(record.cells), record.sampled
    )
    require_types(sampled)
    return sampled


def _cells(place: Path, record: StudyRecord, sampled: Sampled | None) -> list[CellInfo]:
    """Return the cells with their runs; of a study with a sampler, those that were chosen or run."""
    cells = []
    for cell in record.cells:
        runs = tuple(_run(place, cell.name, run) for run in cell.runs)
        fresh: tuple[CellRun, ...] = ()
        if record.confirmation is not None and record.confirmation.cell == cell.name:
            fresh = tuple(
                _run(place, cell.name, run) for run in record.confirmation.runs
            )
        # A cell may have been run before the sampler was there, or when it chose others.
        has_begun = any(run.status != "waiting" for run in runs)
        if sampled is None or cell.name in sampled.names or has_begun:
            cells.append(
                CellInfo(cell.name, cell.labels, runs, cell.differences, fresh)
            )
    return cells


def _number_of_runs(cells: Sequence[CellInfo]) -> int:
    return sum(len(cell.runs) for cell in cells)


def _without_needless_runs(cell: CellInfo, decisions: Decisions | None) -> CellInfo:
    """Return a cell without the runs that will not be done, since the study has stopped it or has ended.

    Of a later seed all runs stay or none: one that has finished under some prompts alone has no score.
    """
    last = None if decisions is None else decisions.last_seeds(cell.name)
    if last is None:
        return cell
    seeds = {*cell.seeds[:last], *cell.finished_seeds}
    runs = tuple(run for run in cell.runs if run.seed in seeds)
    return attrs.evolve(cell, runs=runs)


def _run(place: Path, cell: str, run: RunRecord) -> CellRun:
    directory = Path(run.directory)
    if directory.is_absolute() or ".." in directory.parts:
        raise ValueError(f"a run lies outside the study, in {run.directory!r:.80}")
    status = status_of(place, directory)
    if status in ("finished", "failed"):
        read = read_run(place / directory, cell, run.seed, place, run.evaluations)
        return attrs.evolve(read, status=status, prompt=run.prompt)
    place_of_run = None if status == "waiting" else directory
    return CellRun(cell, run.seed, status, place_of_run, prompt=run.prompt)


def status_of(place: Path, directory: Path) -> CellStatus:
    """Return the status of the run in `directory` of the study in `place`."""
    run = place / directory
    status = manifest_status(run)
    if status == "finished":
        return "finished"
    if is_locked(lock_of(place, run)):
        return "running"
    if status is None:
        return "waiting"
    return "failed" if status == "failed" else "interrupted"


def lock_of(place: Path, run: Path) -> Path:
    """Return the lock of a run of the study in `place`."""
    return place / LOCKS / f"{run.name}.lock"


def is_finished(run: Path, evaluations: Sequence[str] = ()) -> bool:
    """Whether the run in a directory has finished, and has been given all of these evaluations."""
    return manifest_status(run) == "finished" and not missing_evaluations(
        run, evaluations
    )
