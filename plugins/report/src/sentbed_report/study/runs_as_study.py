"""Runs and studies, read as one study."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import digits
from typing import Any

import attrs
import tomli
from sentbed.errors import RunError
from sentbed.tools import RESOLVED, differences

from sentbed_report.formatting import count
from sentbed_report.study.read_cell_run import read_run
from sentbed_report.study.read_study_directory import is_study, read_data
from sentbed_report.study.study_data import (
    CellInfo,
    CellRun,
    StudyData,
    with_decided_splits,
    with_runs,
)

_DIGITS = ("", *digits)
"""What comes after the common beginning of names that end in numbers."""


@attrs.define
class _Group:
    """Runs that become one cell, since their recipes differ only in name and seed."""

    recipe: Any
    """Their resolved recipe, without name and seed."""
    names: list[str]
    """Names of the runs; for a cell of a study, only the cell's name."""
    runs: dict[int, Path]
    """Seed -> run directory."""
    evaluations: Mapping[int, tuple[str, ...] | None] = attrs.field(factory=dict)
    """Seed -> keys of the evaluations to read; see `read_run`."""
    in_study: bool = False
    """Whether the group is a cell of a study; if so, no run outside this study is added to it."""

    @property
    def name(self) -> str:
        """Name of the cell: the name of its run, or the common beginning of its runs' names."""
        if len(set(self.names)) == 1:
            return self.names[0]
        shared = ""
        for characters in zip(*self.names, strict=False):
            if len(set(characters)) > 1:
                break
            shared += characters[0]
        # `run-1`, `run-10` and `run-11` are `run`, not `run-1`; `mean-seed1` and `mean-seed2` are `mean`.
        if all(name[len(shared) :][:1] in _DIGITS for name in self.names):
            shared = shared.rstrip("0123456789")
        shared = re.sub(r"([-_ .,/]+(seed|s))?[-_ .,/=]*$", "", shared)
        return shared or " + ".join(self.names)


def runs_as_study(
    directories: Sequence[Path],
    base: Path | None = None,
    is_row_each: bool = False,
) -> StudyData:
    """Return runs and studies as one study without axes; a single study is returned with its axes.

    Runs whose recipes differ only in seed and name are one cell, which is named by the common beginning of
    their names. Any other run is a cell with the name of the run. A cell of a study remains a cell, with the
    name `STUDY: CELL`. The baseline is the first cell; if the first directory is a study with a baseline, that
    one is the baseline. The directories of runs are made relative to `base`, by default the current directory.
    With `is_row_each`, every run is a cell of its own, and may be given twice.

    Raises:
        RunError: if a directory is neither a run directory nor a study, or is given twice, or if a study with
            prompts is not given alone.
    """
    base = base or Path.cwd()
    if not is_row_each:
        _require_once(directories)
    if len(directories) == 1 and is_study(directories[0]):
        return _rebased(read_data(directories[0]), base)

    groups: list[_Group] = []
    first: _Group | None = None
    for directory in directories:
        if not is_study(directory):
            _add_run(groups, directory, is_row_each)
            continue
        data = read_data(directory)
        for cell, group in _groups_of_study(data, directory):
            groups.append(group)
            if cell.name == data.baseline and directory == directories[0]:
                first = group
    if not groups:
        raise RunError(
            "no run of these studies has begun; run one with `sentbed study`"
        )

    first = first or groups[0]
    cells = []
    seeds: dict[int, None] = {}
    for group, name in zip(groups, _unique_names(groups), strict=True):
        runs = []
        for seed, directory in group.runs.items():
            evaluations = group.evaluations.get(seed)
            runs.append(read_run(directory, name, seed, base, evaluations))
        changes = tuple(differences(first.recipe, group.recipe))
        cells.append(CellInfo(name, {}, tuple(runs), changes))
        seeds |= dict.fromkeys(group.runs)

    name = cells[0].name
    baseline = None
    if len(cells) > 1:
        name = count(sum(len(cell.runs) for cell in cells), "run")
        baseline = cells[groups.index(first)].name
    return StudyData(
        name=name,
        axes=(),
        cells=with_decided_splits(cells),
        baseline=baseline,
        seeds=tuple(seeds),
        directory=base,
    )


def _require_once(directories: Sequence[Path]) -> None:
    """Raise `RunError` if a directory is given twice."""
    places: set[Path] = set()
    for directory in directories:
        if directory.resolve() in places:
            raise RunError(
                f"the run or study in `{directory}` is given twice; leave one out"
            )
        places.add(directory.resolve())


def _add_run(
    groups: list[_Group],
    directory: Path,
    is_row_each: bool,
) -> None:
    """Add a run to the group with the same recipe. If there is no such group, add a new group with this run."""
    recipe, name, seed = _recipe(directory)
    for group in groups:
        if is_row_each or group.in_study or group.recipe != recipe:
            continue
        # A second run with the same recipe and seed starts another group.
        if seed not in group.runs:
            group.names.append(name)
            group.runs[seed] = directory
            return
    groups.append(_Group(recipe, [name], {seed: directory}))


def _unique_names(groups: Sequence[_Group]) -> list[str]:
    """Return the name of each group.

    If several groups have the same name, each of these names ends with the directory of the group's first run.
    """
    first_runs = []
    runs_of_names: dict[str, set[Path]] = {}
    for group in groups:
        first_run = next(iter(group.runs.values()))
        first_runs.append(first_run)
        runs_of_names.setdefault(group.name, set()).add(first_run)

    names = []
    for group, first_run in zip(groups, first_runs, strict=True):
        name = group.name
        # A run that is given twice may have the same name twice.
        if len(runs_of_names[name]) > 1:
            name += f" ({first_run})"
        names.append(name)
    return names


def _groups_of_study(
    data: StudyData, directory: Path
) -> Iterator[tuple[CellInfo, _Group]]:
    """Yield the cells of a study, each with its group; cells of which no run has begun are left out.

    Raises:
        RunError: if the study has prompts.
    """
    if data.prompts:
        raise RunError(
            f"the study in `{directory}` has {len(data.prompts)} prompts, which are paired only within a "
            "study; give this study alone, or name its runs under one prompt"
        )
    place = data.directory or Path()
    for cell in data.cells:
        runs = {}
        evaluations = {}
        for run in cell.runs:
            evaluations[run.seed] = run.evaluations
            if run.directory is None:
                continue
            directory_of_run = place / run.directory
            if (directory_of_run / RESOLVED).is_file():
                runs[run.seed] = directory_of_run
        if runs:
            recipe, _, _ = _recipe(next(iter(runs.values())))
            name = f"{data.name}: {cell.name}"
            yield cell, _Group(recipe, [name], runs, evaluations, in_study=True)


def _rebased(data: StudyData, base: Path) -> StudyData:
    """Return a study whose run directories are relative to `base`."""

    def moved(run: CellRun) -> CellRun:
        if run.directory is None:
            return run
        place = os.path.relpath((data.directory or Path()) / run.directory, base)
        return attrs.evolve(run, directory=Path(place))

    return attrs.evolve(data, cells=with_runs(data.cells, moved), directory=base)


def _recipe(directory: Path) -> tuple[dict[str, Any], str, int]:
    """Return the resolved recipe of a run without name and seed, then its name and its seed."""
    try:
        recipe = tomli.loads((directory / RESOLVED).read_text("utf-8"))
        return recipe, str(recipe["run"].pop("name")), int(recipe["run"].pop("seed"))
    except (OSError, ValueError, LookupError, AttributeError, TypeError) as error:
        raise RunError(
            f"`{directory}` is neither a run directory (no `{RESOLVED}` in it that can be read) nor a study; "
            "name one"
        ) from error
