"""Treatment of arbitrary runs as a study."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomli
from sentbed.errors import RunError
from sentbed.tools import RESOLVED, differences

from sentbed_report.study.cell_run import read_run
from sentbed_report.study.study_data import CellInfo, StudyData


def runs_as_study(runs: Sequence[Path], base: Path | None = None) -> StudyData:
    """Return runs as a study without axes; the first is the baseline.

    Runs whose recipes differ in nothing but seed and name are one cell; each other run is a cell, called as
    the run. Places are told relative to `base`, the current directory where it is left out.

    Raises:
        RunError: if one is not a run directory, or is given twice.
    """
    base = base or Path.cwd()
    groups: list[tuple[Any, dict[int, Path], str]] = []
    places: set[Path] = set()
    for directory in runs:
        if directory.resolve() in places:
            raise RunError(f"the run in `{directory}` is given twice; leave one out")
        places.add(directory.resolve())
        recipe, name, seed = _recipe(directory)
        # A second run of the same recipe and seed is not another seed.
        known = next((found for other, found, _ in groups if other == recipe and seed not in found), None)
        if known is None:
            groups.append((recipe, {seed: directory}, name))
        else:
            known[seed] = directory
    counts = Counter(name for _, _, name in groups)
    cells = []
    for recipe, found, name in groups:
        unique = name if counts[name] == 1 else f"{name} ({next(iter(found.values()))})"
        cells.append(
            CellInfo(
                unique,
                {},
                tuple(read_run(directory, unique, seed, base) for seed, directory in found.items()),
                tuple(differences(groups[0][0], recipe)),
            )
        )
    return StudyData(
        f"{len(runs)} runs",
        (),
        tuple(cells),
        cells[0].name,
        tuple(dict.fromkeys(run.seed for cell in cells for run in cell.runs)),
        directory=base,
    )


def _recipe(directory: Path) -> tuple[dict[str, Any], str, int]:
    """Return the resolved recipe without name and seed, then name and seed."""
    try:
        recipe = tomli.loads((directory / RESOLVED).read_text("utf-8"))
        return recipe, str(recipe["run"].pop("name")), int(recipe["run"].pop("seed"))
    except (OSError, ValueError, LookupError, AttributeError, TypeError) as error:
        raise RunError(
            f"`{directory}` is not a run directory (no `{RESOLVED}` in it that can be read); name one"
        ) from error
