"""Runs, or a study, read as one study."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

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
    with_runs,
)

_Recipe: TypeAlias = dict[str, Any]
"""Resolved recipe of a run, without name and seed."""


@attrs.define
class _Cell:
    """A cell to which runs with the same recipe may still be added."""

    name: str
    recipe: _Recipe
    directory: Path
    """Directory of the first run."""
    runs: dict[int, CellRun]
    """Seed -> run."""


def runs_as_study(
    directories: Sequence[Path],
    base: Path | None = None,
    is_row_each: bool = False,
) -> StudyData:
    """Return runs as one study without axes, or a single study with its axes.

    Runs whose recipes differ only in seed and name are one cell, which has the name of the first of them. The
    baseline is the first cell. The directories of runs are made relative to `base`, by default the current
    directory. With `is_row_each`, every run is a cell of its own.

    Raises:
        RunError: if a directory is neither a run directory nor a study, or is given twice, or if a study is not
            given alone.
    """
    base = base or Path.cwd()
    if len(directories) == 1 and is_study(directories[0]):
        data = read_data(directories[0])
        cells = with_runs(data.cells, lambda run: _moved(run, directories[0], base))
        return attrs.evolve(data, cells=cells, directory=base)

    groups: list[_Cell] = []
    places = set()
    for directory in directories:
        if directory.resolve() in places:
            raise RunError(f"the run in `{directory}` is given twice; leave one out")
        places.add(directory.resolve())
        if is_study(directory):
            raise RunError(
                f"`{directory}` is a study, whose cells are compared with each other; give it alone, or its runs"
            )
        _add_run(groups, directory, base, is_row_each)
    return _study_of(groups, base)


def _study_of(groups: Sequence[_Cell], base: Path) -> StudyData:
    """Return the study of these cells; a name that several of them have is followed by the directory."""
    counts = Counter(group.name for group in groups)
    cells = []
    seeds: dict[int, None] = {}
    number_of_runs = 0
    for group in groups:
        name = group.name
        if counts[name] > 1:
            name += f" ({group.directory})"

        runs = []
        for run in group.runs.values():
            runs.append(attrs.evolve(run, cell=name))
        changes = tuple(differences(groups[0].recipe, group.recipe))
        cells.append(CellInfo(name, {}, tuple(runs), changes))
        seeds |= dict.fromkeys(group.runs)
        number_of_runs += len(runs)

    title = count(number_of_runs, "run")
    baseline = None
    if len(cells) == 1:
        title = cells[0].name
    else:
        baseline = cells[0].name

    return StudyData(
        name=title,
        axes=(),
        cells=tuple(cells),
        baseline=baseline,
        seeds=tuple(seeds),
        directory=base,
    )


def _add_run(
    groups: list[_Cell],
    directory: Path,
    base: Path,
    is_row_each: bool,
) -> None:
    """Add a run to the cell with the same recipe, or as a new cell if there is none."""
    recipe, name, seed = _recipe(directory)
    run = read_run(directory, name, seed, base)
    for group in groups:
        # A second run with the same recipe and seed is another cell.
        is_same_cell = group.recipe == recipe and seed not in group.runs
        if is_same_cell and not is_row_each:
            group.runs[seed] = run
            return
    groups.append(_Cell(name, recipe, directory, {seed: run}))


def _moved(run: CellRun, study: Path, base: Path) -> CellRun:
    """Return a run whose directory is relative to `base`, and no longer to its study."""
    if run.directory is None:
        return run
    place = os.path.relpath(study / run.directory, base)
    return attrs.evolve(run, directory=Path(place))


def _recipe(directory: Path) -> tuple[_Recipe, str, int]:
    """Return the resolved recipe of a run without name and seed, then its name and its seed."""
    try:
        recipe = tomli.loads((directory / RESOLVED).read_text("utf-8"))
        return recipe, str(recipe["run"].pop("name")), int(recipe["run"].pop("seed"))
    except (OSError, ValueError, LookupError, AttributeError, TypeError) as error:
        raise RunError(
            f"`{directory}` is neither a run directory (no `{RESOLVED}` in it that can be read) nor a study; "
            "name one"
        ) from error
