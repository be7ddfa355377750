"""Writes the directory of a study; `sentbed_report.study.read_study_directory` reads it."""

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
"""Prefix of the names of the locks that processes hold while they run a study."""


@contextmanager
def at_work(
    directory: Path, study: Study, work: Work, sampled: Sequence[str] = ()
) -> Iterator[None]:
    """Write a study's cells and axes for `read_data`, and hold a lock that marks the study as running.

    Several processes may run the same study. `sampled` are the cells that its sampler chooses first.

    Raises:
        RunError: if the directory holds another study, or another process runs this one with another recipe.
    """
    record = _record(study, work)
    _require_same_study(directory, record)
    digest = hashlib.sha256(_as_json(record).encode()).hexdigest()
    same_recipe = f"{AT_WORK}-{digest[:16]}-"
    lock = directory / LOCKS / f"{same_recipe}{uuid.uuid4().hex}.lock"
    try:
        with locked(lock):
            # This lock is held already: of two processes that begin together, at least one sees the other.
            for other in lock.parent.glob(f"{AT_WORK}-*.lock"):
                if not other.name.startswith(same_recipe) and is_locked(other):
                    raise RunError(
                        f"another process works in `{directory}` on a study by another recipe; let it end "
                        "first, or choose another `--out`"
                    )
            write_atomic(directory / RECIPE, _recipe(study, directory))
            record = attrs.evolve(record, sampled=tuple(sampled))
            # Read under the lock: another process may have written it since.
            before = _record_before(directory)
            if before is not None:
                record = _with_choices_before(record, before)
            if before is None or _as_json(record) != _as_json(before):
                write_study_record(directory, record)
            yield
    finally:
        # Fails if the disk has become read-only, which must not hide the first error.
        with suppress(OSError):
            lock.unlink(missing_ok=True)


def _require_same_study(directory: Path, record: StudyRecord) -> None:
    """Raise `RunError` if the study in a directory has another name, and no run in common with `record`."""
    before = _record_before(directory)
    if before is None or before.name == record.name:
        return
    if set(_keys(before)).isdisjoint(_keys(record)):
        raise RunError(
            f"`{directory}` holds the study `{before.name}`, and this one is `{record.name}`; choose "
            "another `--out`"
        )


def _as_json(record: StudyRecord) -> str:
    return json.dumps(attrs.asdict(record))


def _record_before(directory: Path) -> StudyRecord | None:
    """Return the record of the study in a directory; None if there is none, or it cannot be read."""
    try:
        return read_study_record(directory)
    except (RunError, DataError):
        return None


def _with_choices_before(record: StudyRecord, before: StudyRecord) -> StudyRecord:
    """Return the record with the sampled cells and the runs with fresh seeds of an earlier record.

    Sampled cells are taken if the sampler is the same and the study still has them; runs with fresh seeds if
    the keys of the chosen cell and the number of fresh seeds are the same.
    """
    names = {cell.name for cell in record.cells}
    is_same_sampler = before.sampler == record.sampler
    if before.sampled and is_same_sampler and names.issuperset(before.sampled):
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
    """Write the cells that have been chosen into `study.json`, unless it already has them and more."""
    record = read_study_record(directory)
    if record.sampled[: len(names)] != tuple(names):
        write_study_record(directory, attrs.evolve(record, sampled=tuple(names)))


def has_same_runs(directory: Path, study: Study, work: Work) -> bool:
    """Whether `directory` holds a study with the cells and runs of `work`, the work of the whole study."""
    before = _record_before(directory)
    if before is None:
        return False
    runs = [(cell.name, cell.runs) for cell in _cells(study, work)]
    return runs == [(cell.name, cell.runs) for cell in before.cells]


def note_confirmation(directory: Path, work: Work) -> None:
    """Write the runs of the chosen cell with fresh seeds into `study.json`."""
    runs = tuple(_run(task) for task in work.tasks)
    confirmation = ConfirmationRecord(work.tasks[0].cell.name, runs)
    record = read_study_record(directory)
    if record.confirmation != confirmation:
        write_study_record(directory, attrs.evolve(record, confirmation=confirmation))


def _keys(record: StudyRecord, name: str = "") -> list[str]:
    """Return the keys of the runs of a cell, or of all cells if `name` is empty."""
    keys = []
    for cell in record.cells:
        if name in ("", cell.name):
            keys += [run.key for run in cell.runs]
    return keys


def _record(study: Study, work: Work) -> StudyRecord:
    """Return the content of `study.json` before any cell is chosen."""
    table = study.table
    axes = []
    for axis in study.axes:
        paths = axis.paths(study.document)
        axes.append(AxisInfo(axis.name, axis.labels, axis.numbers, paths))

    references = {}
    for name, reference in table.references.items():
        if reference.results is None:
            references[name] = reference

    stop = None if table.stop is None else attrs.asdict(table.stop)
    sampler = None if table.sampler is None else unstructure(table.sampler)
    return StudyRecord(
        name=study.name,
        axes=tuple(axes),
        baseline=study.baseline,
        excluded=tuple((cell.name, cell.reasons) for cell in study.excluded),
        expected=table.expected,
        references=references,
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
    """Return the recipe with extended recipes and overrides applied, and a comment that names its files."""
    document = study.document
    files: dict[Path, None] = {}
    for name in (document.file, *(file for file, _ in document.places.values())):
        if name:
            files[Path(name).resolve()] = None

    comment = ""
    for file in files:
        relative = Path(os.path.relpath(file, directory.resolve()))
        comment += f"# From {relative.as_posix()}\n"

    if comment:
        comment += (
            "# A relative path starts from the directory of the file that says it.\n"
        )
    return comment + tomli_w.dumps(dict(document.data))


def _cells(study: Study, work: Work) -> tuple[CellRecord, ...]:
    """Return the records of all cells, each with the differences of its recipe from the baseline's."""
    tables = {cell.name: _compared(cell.recipe) for cell in reversed(study.cells)}
    baseline = tables[study.baseline or study.names[0]]
    order = {cell.identity: index for index, cell in enumerate(study.cells)}
    tasks: dict[str, list[Task]] = {}
    for task in sorted(work.tasks, key=lambda task: order[task.cell.identity]):
        tasks.setdefault(task.cell.name, []).append(task)

    cells = []
    for name, of_cell in tasks.items():
        labels = of_cell[0].cell.labels
        differing = tuple(differences(baseline, tables[name]))
        runs = tuple(map(_run, of_cell))
        cells.append(CellRecord(name, labels, differing, runs))
    return tuple(cells)


def _run(task: Task) -> RunRecord:
    cell = task.cell
    return RunRecord(
        cell.seed, task.key, str(task.directory), task.evaluation_keys, cell.prompt
    )


def _compared(recipe: Recipe) -> Any:
    """Return a cell's recipe for comparison with the baseline's: without seed and study, with relative paths."""
    file = recipe.document.file
    base = Path(file).resolve().parent if file else None
    table = unstructure(recipe.without(StudyTable), base)
    table["run"].pop("seed")
    return table


def is_older(report: Path, place: Path, work: Work) -> bool:
    """Whether a report is missing, or older than a run, an added evaluation, `study.json` or the decisions."""
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
    """Return the shared stages of `work` that its unstarted runs still need, shorter prefixes first."""
    keys = set()
    for task in unstarted:
        for prefix in chain(task.above):
            status = manifest_status(place / prefix.directory)
            if status != "finished":
                keys.add(prefix.key)
            if status is not None:
                break
    return [prefix for prefix in work.prefixes if prefix.key in keys]
