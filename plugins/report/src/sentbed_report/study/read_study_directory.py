"""Reading of a study's directory: its axes and cells from `study.json`, and each run as far as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from sentbed.errors import RunError
from sentbed.helpers import foreign, read_file, require_types
from sentbed_common import is_locked

from sentbed_report.report_json import read_record
from sentbed_report.study.deciding_score import Decide
from sentbed_report.study.decisions import Decisions, read_decisions
from sentbed_report.study.published_number_config import Published, Reference
from sentbed_report.study.read_cell_run import manifest_status, missing_evaluations, read_run
from sentbed_report.study.study_data import (
    AxisInfo,
    CellInfo,
    CellRun,
    CellStatus,
    Sampled,
    StudyData,
    with_decided_splits,
)

STUDY = "study.json"
RECIPE = "study.toml"
SCHEMA = 1
READ_APART = frozenset({"scores", "record", "cost", "decisions"})
"""Fields of a study's classes that are read of other files, each with checks of its own."""

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
    try:
        content = read_record(place / STUDY)
        recipe = read_file(place / RECIPE).decode()
    except OSError as error:
        raise RunError(
            f"`{directory}` is no study (no `{STUDY}` in it); name the directory of one"
        ) from error
    except ValueError as error:
        message = f"`{place / STUDY}` is damaged: {error}; run `sentbed study` there again"
        raise RunError(message) from error
    with foreign(RunError, f"`{place / STUDY}` is damaged", "run `sentbed study` there again"):
        if content.get("schema") != SCHEMA:
            raise RunError(
                f"`{place / STUDY}` has schema {content.get('schema')}, this version reads {SCHEMA}"
            )
        held = read_decisions(place)
        # Without `[study.stop]`, which has been taken out, nothing is stopped any more.
        decisions = held if content.get("stop") is not None else None
        planned = with_decided_splits(tuple(_cells(place, content)))
        axes = tuple(_axis(axis) for axis in content["axes"])
        _require_labels(planned, axes)
        cells = tuple(_needed(cell, decisions) for cell in planned)
        data = StudyData(
            content["name"],
            axes,
            cells,
            content["baseline"],
            tuple(dict.fromkeys(run["seed"] for cell in content["cells"] for run in cell["runs"])),
            tuple((name, tuple(reasons)) for name, reasons in content["excluded"]),
            {title: Published(**table) for title, table in content["expected"].items()},
            tuple(content["order"]),
            recipe,
            place,
            # Studies of earlier versions have none.
            {name: Reference(**found) for name, found in content.get("references", {}).items()},
            None if content.get("ranks") is None else tuple(content["ranks"]),
            content.get("colour", ""),
            content.get("cost", ""),
            _decide(content.get("decide")),
            decisions,
            _looks(content, held),
            sum(len(cell.runs) for cell in planned) - sum(len(cell.runs) for cell in cells),
            _sampled(content),
            equivalence=content.get("equivalence"),
            family=content.get("family", "column"),
            groups=content.get("groups", True),
        )
        require_types(data, READ_APART)
        if unknown := set(data.ranks or ()) - {axis.name for axis in axes}:
            raise ValueError(f"`ranks` has the unknown axis {min(unknown)!r:.80}")
        return data


def _decide(table: Mapping[str, Any] | None) -> Decide | None:
    return None if table is None else Decide(**{**table, "tasks": tuple(table.get("tasks", ()))})


def _looks(content: Mapping[str, Any], held: Decisions | None) -> int:
    """Return the largest number of looks that a study makes, by its recipe, or has made by an earlier one."""
    made = [] if held is None else [len(rule.looks) for rule in (held.rule, *held.earlier)]
    if (stop := content.get("stop")) is not None:
        seeds = {run["seed"] for cell in content["cells"] for run in cell["runs"]}
        made.append(len(seeds) - stop["first_look"] + 1)
    return max(made, default=1)


def _sampled(content: Mapping[str, Any]) -> Sampled | None:
    if (table := content.get("sampler")) is None:
        return None
    names = tuple(content["sampled"])
    return Sampled(table["use"], table["seed"], table["cells"], len(content["cells"]), names)


def _cells(place: Path, content: Mapping[str, Any]) -> Iterator[CellInfo]:
    sampled = _sampled(content)
    # Studies of earlier versions have none.
    confirmation = content.get("confirmation") or {"cell": "", "runs": ()}
    for table in content["cells"]:
        cell = _cell(place, table)
        if cell.name == confirmation["cell"]:
            fresh = tuple(_run(place, cell.name, run) for run in confirmation["runs"])
            cell = attrs.evolve(cell, confirmation=fresh)
        # A cell may have been run before the sampler was there, or when it chose others.
        if sampled is None or cell.name in sampled.names or any(r.status != "waiting" for r in cell.runs):
            yield cell


def _axis(axis: Mapping[str, Any]) -> AxisInfo:
    numbers = axis["numbers"]
    return AxisInfo(axis["name"], tuple(axis["labels"]), None if numbers is None else tuple(numbers))


def _cell(place: Path, cell: Mapping[str, Any]) -> CellInfo:
    runs = tuple(_run(place, cell["name"], run) for run in cell["runs"])
    return CellInfo(cell["name"], cell["labels"], runs, tuple(cell["differences"]))


def _require_labels(cells: Sequence[CellInfo], axes: Sequence[AxisInfo]) -> None:
    """Raise `ValueError` if a cell has not one of the labels of each axis."""
    for cell in cells:
        if set(cell.labels) != {axis.name for axis in axes}:
            raise ValueError(f"the cell `{cell.name}` has labels on other axes than the study has")
        for axis in axes:
            if cell.labels[axis.name] not in axis.labels:
                label = cell.labels[axis.name]
                raise ValueError(f"the cell `{cell.name}` has the unknown label {label!r:.80}")


def _needed(cell: CellInfo, decisions: Decisions | None) -> CellInfo:
    """Return a cell without the runs that will not be done, since the study has stopped it or has ended."""
    last = None if decisions is None else decisions.last_seeds(cell.name)
    if last is None:
        return cell
    later = [run for run in cell.runs[last:] if run.status == "finished"]
    return attrs.evolve(cell, runs=(*cell.runs[:last], *later))


def _run(place: Path, cell: str, run: Mapping[str, Any]) -> CellRun:
    directory = Path(run["directory"])
    if directory.is_absolute() or ".." in directory.parts:
        raise ValueError(f"a run lies outside the study, in {str(directory)!r:.80}")
    status = status_of(place, directory)
    if status in ("finished", "failed"):
        keys = run.get("evaluations")
        return attrs.evolve(read_run(place / directory, cell, run["seed"], place, keys), status=status)
    return CellRun(cell, run["seed"], status, directory if status != "waiting" else None)


def status_of(place: Path, directory: Path) -> CellStatus:
    """Return the status of the run in `directory` of the study in `place`."""
    run = place / directory
    said = manifest_status(run)
    if said == "finished":
        return "finished"
    if is_locked(lock_of(place, run)):
        return "running"
    if said is None:
        return "waiting"
    return "failed" if said == "failed" else "interrupted"


def lock_of(place: Path, run: Path) -> Path:
    """Return the lock of a run of the study in `place`."""
    return place / LOCKS / f"{run.name}.lock"


def is_finished(run: Path, evaluations: Sequence[str] = ()) -> bool:
    """Whether the run in a directory has finished, and has been given all of these evaluations."""
    return manifest_status(run) == "finished" and not missing_evaluations(run, evaluations)
