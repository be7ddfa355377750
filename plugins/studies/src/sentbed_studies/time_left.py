"""Estimate of the training time that a study has left."""

from __future__ import annotations

from pathlib import Path

from sentbed.errors import SentbedError
from sentbed.tools import Recipe, first_stages
from sentbed_workbench.plan import plan

from sentbed_studies.sharing import Prefix, Work
from sentbed_studies.study_directory import is_finished, needed


def seconds_of(work: Work, directory: Path) -> tuple[float, float] | None:
    """Return the minimum and maximum seconds of training left, counting shared stages once.

    Return None if a cell cannot be planned, or nothing is trained.
    """
    low = high = 0.0
    known: dict[str, list[tuple[float, float] | None]] = {}
    jobs: list[tuple[Path, Recipe, Prefix | None]] = [
        *((p.directory, first_stages(p.recipe, p.count), p.above) for p in needed(directory, work)),
        *((task.directory, task.cell.recipe, task.above) for task in work.tasks),
    ]
    for place, recipe, above in jobs:
        if not recipe.stage or is_finished(directory / place):
            continue
        key = repr((recipe.runtime, recipe.encoders, recipe.stage))
        if key not in known:
            try:
                known[key] = [stage.seconds for stage in plan(recipe).stages]
            except SentbedError:
                return None
        for seconds in known[key][0 if above is None else above.count :]:
            if seconds is None:
                return None
            low, high = low + seconds[0], high + seconds[1]
    return (low, high) if high else None
