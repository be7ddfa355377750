"""Writing of a study's directory; `sentbed_report.study.read_study_directory` reads it."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import tomli_w
from sentbed.errors import DataError, RunError
from sentbed.helpers import write_atomic
from sentbed.tools import MANIFEST, Recipe, differences, locked, unstructure
from sentbed_common import is_locked
from sentbed_report.study.decisions import DECISIONS
from sentbed_report.study.read_cell_run import ADDED, manifest_status
from sentbed_report.study.read_study_directory import LOCKS, RECIPE
from sentbed_report.study.study_data import AxisInfo
from sentbed_report.study.study_record import (
    STUDY,
    CellRecord,
    ConfirmationRecord,
    RunRecord,
    StudyRecord,
    read_study_record,
    write_study_record,
)

from sentbed_studies.shared_work_plan import Prefix, Task, Work, chain
from sentbed_studies.study import Study
from sentbed_studies.study_config import StudyTable

AT_WORK = "at-work"
"""Beginning of the names of locks that processes hold while they work on a study."""


@contextmanager
def at_work(
    directory: Path, study: Study, work: Work, sampled: Sequence[str] = ()
) -> Iterator[None]:
    """Write a study's cells and axes, for `read_data`, and say that this process works on them.

    Several processes may work on the same study. `sampled` are the cells that its sampler chooses first.

    Raises:
        RunError: if the directory holds another study, or a process works on this one by another recipe.
    """
    record = _record(study, work)
    before = _record_before(directory)
    if (
        before is not None
        and before.name != record.name
        and not set(_keys(before)) & set(_keys(record))
    ):
        raise RunError(
            f"`{directory}` holds the study `{before.name}`, and this one is `{record.name}`; choose "
            "another `--out`"
        )
    same_study = (
        f"{AT_WORK}-{hashlib.sha256(_as_json(record).encode()).hexdigest()[:16]}-"
    )
    lock = directory / LOCKS / f"{same_study}{uuid.uuid4().hex}.lock"
    try:
        with locked(lock):
            # Ours is held already: of two processes that begin at once, one at least sees the other.
            for other in lock.parent.glob(f"{AT_WORK}-*.lock"):
                if not other.name.startswith(same_study) and is_locked(other):
                    raise RunError(
                        f"another process works in `{directory}` on a study by another recipe; let it end "
                        "first, or choose another `--out`"
                    )
            write_atomic(directory / RECIPE, _recipe(study, directory))
            record = attrs.evolve(record, sampled=tuple(sampled))
            # Another process may have gone on with the study since.
            before = _record_before(directory)
            if before is not None:
                record = _with_choices_before(record, before)
            if before is None or _as_json(record) != _as_json(before):
                write_study_record(directory, record)
            yield
    finally:
        # On a disk that has become read-only this fails too, and would hide why.
        with suppress(OSError):
            lock.unlink(missing_ok=True)


def _as_json(record: StudyRecord) -> str:
    return json.dumps(attrs.asdict(record))


def _record_before(directory: Path) -> StudyRecord | None:
    """Return what a directory says of its study; None without one that can be read."""
    try:
        return read_study_record(directory)
    except (RunError, DataError):
        return None


def _with_choices_before(record: StudyRecord, before: StudyRecord) -> StudyRecord:
    """Return the record with the cells that the same sampler has chosen, and the runs with fresh seeds.

    These stay if their cell and their number are the same.
    """
    names = {cell.name for cell in record.cells}
    if (
        before.sampled
        and before.sampler == record.sampler
        and names.issuperset(before.sampled)
    ):
        record = attrs.evolve(record, sampled=before.sampled)

    confirmation = before.confirmation
    if confirmation is not None and record.decide is not None:
        keys = _keys(record, confirmation.cell)
        is_same_cell = keys == _keys(before, confirmation.cell)
        fresh_seeds = {run.seed for run in confirmation.runs}
        if is_same_cell and len(fresh_seeds) == record.decide.confirm:
            record = attrs.evolve(record, confirmation=confirmation)
    return record


def note_sampled(directory: Path, names: Sequence[str]) -> None:
    """Write the cells that have been chosen into `study.json`, unless another process is further on."""
    record = read_study_record(directory)
    if record.sampled[: len(names)] != tuple(names):
        write_study_record(directory, attrs.evolve(record, sampled=tuple(names)))


def has_same_runs(directory: Path, study: Study, work: Work) -> bool:
    """Whether `directory` holds a study with the cells and runs of `work`, the whole study's."""
    before = _record_before(directory)
    if before is None:
        return False
    runs = {cell.name: cell.runs for cell in _cells(study, work)}
    return list(runs.items()) == [(cell.name, cell.runs) for cell in before.cells]


def note_confirmation(directory: Path, work: Work) -> None:
    """Write the runs of the chosen cell with fresh seeds into `study.json`."""
    runs = tuple(_run(task) for task in work.tasks)
    confirmation = ConfirmationRecord(work.tasks[0].cell.name, runs)
    record = read_study_record(directory)
    if record.confirmation != confirmation:
        write_study_record(directory, attrs.evolve(record, confirmation=confirmation))


def _keys(record: StudyRecord, name: str = "") -> list[str]:
    """Return the keys of a cell's runs, or of all cells' with an empty name."""
    keys = []
    for cell in record.cells:
        if name in ("", cell.name):
            keys += [run.key for run in cell.runs]
    return keys


def _record(study: Study, work: Work) -> StudyRecord:
    table = study.table
    stop = None if table.stop is None else attrs.asdict(table.stop)
    sampler = None if table.sampler is None else unstructure(table.sampler)
    return StudyRecord(
        name=study.name,
        axes=tuple(
            AxisInfo(axis.name, axis.labels, axis.numbers, axis.paths(study.document))
            for axis in study.axes
        ),
        baseline=study.baseline,
        excluded=tuple((cell.name, cell.reasons) for cell in study.excluded),
        expected=table.expected,
        references={
            name: reference
            for name, reference in table.references.items()
            if reference.results is None
        },
        published=study.published,
        order=table.order,
        ranks=table.ranks,
        colour=table.colour,
        cost=table.cost,
        decide=table.decide,
        stop=stop,
        sampler=sampler,
        equivalence=table.equivalence,
        family=table.family,
        groups=table.groups,
        prompts=study.prompts,
        prompt_factor=table.prompt_factor,
        cells=_cells(study, work),
    )


def _recipe(study: Study, directory: Path) -> str:
    """Return the recipe with bases and overrides applied, with a comment on the base of its paths."""
    document = study.document
    comment = ""
    named = (document.file, *(file for file, _ in document.places.values()))
    for file in dict.fromkeys(Path(file).resolve() for file in named if file):
        comment += (
            f"# From {Path(os.path.relpath(file, directory.resolve())).as_posix()}\n"
        )
    if comment:
        comment += (
            "# A relative path starts from the directory of the file that says it.\n"
        )
    return comment + tomli_w.dumps(dict(document.data))


def _cells(study: Study, work: Work) -> tuple[CellRecord, ...]:
    tables = {cell.name: _compared(cell.recipe) for cell in reversed(study.cells)}
    other = tables[study.baseline or study.names[0]]
    places = {cell.identity: place for place, cell in enumerate(study.cells)}
    tasks: dict[str, list[Task]] = {}
    for task in sorted(work.tasks, key=lambda task: places[task.cell.identity]):
        tasks.setdefault(task.cell.name, []).append(task)

    cells = []
    for name, of_cell in tasks.items():
        runs = tuple(_run(task) for task in of_cell)
        cells.append(
            CellRecord(
                name,
                of_cell[0].cell.labels,
                tuple(differences(other, tables[name])),
                runs,
            )
        )
    return tuple(cells)


def _run(task: Task) -> RunRecord:
    cell = task.cell
    return RunRecord(
        cell.seed, task.key, str(task.directory), task.evaluation_keys, cell.prompt
    )


def _compared(recipe: Recipe) -> Any:
    # Paths as the recipe has them, not those of this machine.
    file = recipe.document.file
    place = Path(file).resolve().parent if file else None
    table = unstructure(recipe.without(StudyTable), place)
    table["run"].pop("seed")
    return table


def is_older(report: Path, place: Path, work: Work) -> bool:
    """Whether a report is missing, or something that it tells of was written since.

    That is a run, an evaluation added to one, the study's cells, or what it has decided.
    """
    files = [place / STUDY, *place.glob(DECISIONS)]
    for task in work.tasks:
        run = place / task.directory
        files += [run / MANIFEST, *(run / ADDED).glob(f"*/{MANIFEST}")]
    try:
        written = report.stat().st_mtime_ns
        return any(file.stat().st_mtime_ns > written for file in files)
    except OSError:
        return True


def needed(place: Path, work: Work, unstarted: Iterable[Task]) -> list[Prefix]:
    """Return the shared stages of `work` that unstarted runs of it still need, shorter ones first."""
    keys = set()
    for task in unstarted:
        for prefix in chain(task.above):
            status = manifest_status(place / prefix.directory)
            if status != "finished":
                keys.add(prefix.key)
            if status is not None:
                break
    return [prefix for prefix in work.prefixes if prefix.key in keys]
