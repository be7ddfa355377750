"""Writing of a study's directory; `sentbed_report.study.read_study_directory` reads it."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import tomli_w
from sentbed.errors import DataError, RunError
from sentbed.helpers import read_file, read_json, write_atomic
from sentbed.tools import MANIFEST, Recipe, differences, locked, unstructure
from sentbed_common import is_locked
from sentbed_report.study.decisions import DECISIONS
from sentbed_report.study.read_cell_run import ADDED, manifest_status
from sentbed_report.study.read_study_directory import (
    LOCKS,
    RECIPE,
    SCHEMA,
    STUDY,
    is_finished,
    lock_of,
    read_data,
)

from sentbed_studies.shared_work_plan import Prefix, Task, Work, chain
from sentbed_studies.study import Study
from sentbed_studies.study_config import StudyTable

LARGEST_RECORD = 1 << 30
"""Bytes of the largest `study.json`."""
AT_WORK = "at-work"
"""Beginning of the names of locks that processes hold while they work on a study."""

__all__ = [
    "STUDY",
    "at_work",
    "is_finished",
    "is_older",
    "lock_of",
    "manifest_status",
    "needed",
    "note_confirmation",
    "note_sampled",
    "read_data",
    "record_of",
]


@contextmanager
def at_work(directory: Path, study: Study, work: Work, sampled: Sequence[str] = ()) -> Iterator[None]:
    """Write a study's cells and axes, for `read_data`, and say that this process works on them.

    Several processes may work on the same study. `sampled` are the cells that its sampler chooses first.

    Raises:
        RunError: if the directory holds another study, or a process works on this one by another recipe.
    """
    content = _content(study, work)
    _require_same_study(directory, content)
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
    own = directory / LOCKS / f"{AT_WORK}-{digest}-{uuid.uuid4().hex}.lock"
    try:
        with locked(own):
            _require_no_other(own, f"{AT_WORK}-{digest}-", directory)
            write_atomic(directory / RECIPE, _recipe(study, directory))
            chosen = _sampled_before(directory, content) or list(sampled)
            confirmed = _confirmation_before(directory, content)
            whole = {**content, "sampled": chosen, **confirmed}
            write_atomic(directory / STUDY, json.dumps(whole, indent=1) + "\n")
            yield
    finally:
        # On a disk that has become read-only this fails too, and would hide why.
        with suppress(OSError):
            own.unlink(missing_ok=True)


def _sampled_before(directory: Path, content: Mapping[str, Any]) -> list[str]:
    """Return the cells that the same sampler has chosen in a study's directory, as far as it is known."""
    try:
        held = read_json(directory / STUDY)
        names = [str(name) for name in held["sampled"]] if held["sampler"] == content["sampler"] else []
    except (OSError, ValueError, KeyError, TypeError, DataError):
        return []  # none that can be read
    return names if {*names} <= {cell["name"] for cell in content["cells"]} else []


def _confirmation_before(directory: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the noted runs with fresh seeds, if their cell and their number are the same, else nothing."""
    try:
        held = read_json(directory / STUDY)
        confirmation = held["confirmation"]
        name = confirmation["cell"]
        is_same_cell = _keys_of_cell(held, name) == _keys_of_cell(content, name)
        if is_same_cell and len(confirmation["runs"]) == content["decide"]["confirm"]:
            return {"confirmation": confirmation}
    except (OSError, ValueError, LookupError, TypeError, DataError):
        pass  # none that can be read
    return {}


def _keys_of_cell(content: Mapping[str, Any], name: str) -> list[str]:
    """Return the keys of a cell's runs."""
    for cell in content["cells"]:
        if cell["name"] == name:
            return [run["key"] for run in cell["runs"]]
    return []


def note_sampled(directory: Path, names: Sequence[str]) -> None:
    """Write the cells that have been chosen into `study.json`, unless another process is further on."""
    content = read_json(directory / STUDY)
    if content["sampled"][: len(names)] != list(names):
        content["sampled"] = list(names)
        write_atomic(directory / STUDY, json.dumps(content, indent=1) + "\n")


def has_same_runs(directory: Path, study: Study, work: Work) -> bool:
    """Whether `directory` holds a study with the cells and runs of `work`, the whole study's."""
    try:
        held = [(cell["name"], cell["runs"]) for cell in read_json(directory / STUDY)["cells"]]
    except (OSError, ValueError, LookupError, TypeError, DataError):
        return False
    content = json.loads(json.dumps(_cells(study, work)))
    return held == [(cell["name"], cell["runs"]) for cell in content]


def note_confirmation(directory: Path, work: Work) -> None:
    """Write the runs of the chosen cell with fresh seeds into `study.json`."""
    content = read_json(directory / STUDY)
    runs = [_run_table(task) for task in work.tasks]
    content["confirmation"] = {"cell": work.tasks[0].cell.name, "runs": runs}
    write_atomic(directory / STUDY, json.dumps(content, indent=1) + "\n")


def _require_no_other(own: Path, same: str, directory: Path) -> None:
    """Raise `RunError` if a lock is held whose name does not begin like that of a process on the same study.

    Our own is held already: of two processes that begin at once, one at least sees the other.
    """
    for other in own.parent.glob(f"{AT_WORK}-*.lock"):
        if not other.name.startswith(same) and is_locked(other):
            raise RunError(
                f"another process works in `{directory}` on a study by another recipe; let it end first, or "
                "choose another `--out`"
            )


def _require_same_study(directory: Path, content: Mapping[str, Any]) -> None:
    """Raise `RunError` if a directory holds a study of another name that has no run in common with ours."""
    try:
        held = read_json(directory / STUDY)
        other = held["name"] != content["name"] and not _keys(held) & _keys(content)
    except (OSError, ValueError, KeyError, TypeError, DataError):
        return  # none that can be read
    if other:
        raise RunError(
            f"`{directory}` holds the study `{held['name']}`, and this one is `{content['name']}`; choose "
            "another `--out`"
        )


def _keys(content: Mapping[str, Any]) -> set[str]:
    return {run["key"] for cell in content["cells"] for run in cell["runs"]}


def _content(study: Study, work: Work) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "name": study.name,
        "axes": [{"name": a.name, "labels": a.labels, "numbers": a.numbers} for a in study.axes],
        "baseline": study.baseline,
        "excluded": [[one.name, one.reasons] for one in study.excluded],
        "expected": {title: attrs.asdict(found) for title, found in study.table.expected.items()},
        "references": {name: attrs.asdict(found) for name, found in study.table.references.items()},
        "order": study.table.order,
        "ranks": study.table.ranks,
        "colour": study.table.colour,
        "cost": study.table.cost,
        "decide": None if study.table.decide is None else attrs.asdict(study.table.decide),
        "stop": None if study.table.stop is None else attrs.asdict(study.table.stop),
        "sampler": None if study.table.sampler is None else unstructure(study.table.sampler),
        "equivalence": study.table.equivalence,
        "family": study.table.family,
        "groups": study.table.groups,
        "shared": [
            {"stages": str(p), "directory": str(p.directory), "cells": p.cells} for p in work.prefixes
        ],
        "cells": _cells(study, work),
    }


def _recipe(study: Study, directory: Path) -> str:
    """Return the recipe with bases and overrides applied, with a comment on the base of its paths."""
    document = study.document
    named = (document.file, *(file for file, _ in document.places.values()))
    comment = ""
    for file in dict.fromkeys(Path(file).resolve() for file in named if file):
        comment += f"# From {Path(os.path.relpath(file, directory.resolve())).as_posix()}\n"
    if comment:
        comment += "# A relative path starts from the directory of the file that says it.\n"
    return comment + tomli_w.dumps(dict(document.data))


def _cells(study: Study, work: Work) -> list[dict[str, Any]]:
    tables = {cell.name: _compared(cell.recipe) for cell in reversed(study.cells)}
    other = tables[study.baseline or study.names[0]]
    found: dict[str, dict[str, Any]] = {}
    for task in sorted(work.tasks, key=lambda task: study.cells.index(task.cell)):
        name = task.cell.name
        if name not in found:
            differ = list(differences(other, tables[name]))
            found[name] = {"name": name, "labels": task.cell.labels, "differences": differ, "runs": []}
        found[name]["runs"].append(_run_table(task))
    return list(found.values())


def _run_table(task: Task) -> dict[str, Any]:
    return {
        "seed": task.cell.seed,
        "key": task.key,
        "directory": str(task.directory),
        "evaluations": task.evaluation_keys,
    }


def _compared(recipe: Recipe) -> Any:
    # Paths as the recipe has them, not those of this machine.
    file = recipe.document.file
    table = unstructure(recipe.without(StudyTable), Path(file).resolve().parent if file else None)
    table["run"].pop("seed")
    return table


def record_of(place: Path) -> tuple[bytes | None, ...]:
    """Return what is written of a study beside its runs: its cells, and what it has decided."""
    contents: list[bytes | None] = []
    for name in (STUDY, DECISIONS):
        try:
            contents.append(read_file(place / name, LARGEST_RECORD))
        except OSError:
            contents.append(None)
    return tuple(contents)


def is_older(report: Path, place: Path, work: Work) -> bool:
    """Whether a report is missing, or was written before a run, or an evaluation added to one, had ended."""
    try:
        written = report.stat().st_mtime_ns
        for task in work.tasks:
            run = place / task.directory
            for manifest in (run / MANIFEST, *(run / ADDED).glob(f"*/{MANIFEST}")):
                if manifest.stat().st_mtime_ns > written:
                    return True
    except OSError:
        return True
    return False


def needed(place: Path, work: Work) -> list[Prefix]:
    """Return the shared stages that unstarted cells still need, shorter ones first."""
    wanted = set()
    for task in work.tasks:
        if manifest_status(place / task.directory) is not None:
            continue
        for prefix in chain(task.above):
            status = manifest_status(place / prefix.directory)
            if status != "finished":
                wanted.add(prefix.key)
            if status is not None:
                break
    return [prefix for prefix in work.prefixes if prefix.key in wanted]
