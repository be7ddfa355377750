"""What the runs of a study's cells have recorded, for figures that need no table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sentbed.protocols import START, Score

from sentbed_report.study.study_data import CellInfo, CellRun, StudyData

if TYPE_CHECKING:
    import pandas


def scores_after_training(data: StudyData) -> Iterator[tuple[CellInfo, CellRun, Score]]:
    """Yield the scores of a study, those left out that were measured before training."""
    for cell in data.cells:
        for run in cell.runs:
            for score in run.scores:
                if not score.encoder.endswith(START):
                    yield cell, run, score


def stages(data: StudyData) -> Iterator[tuple[CellRun, Mapping[str, Any]]]:
    """Yield what each run has recorded of each of its stages."""
    for cell in data.cells:
        for run in cell.runs:
            for stage in mappings(run.record.get("stages")):
                yield run, stage


def mappings(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield the tables in a list that a program may have written otherwise."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        yield from (item for item in value if isinstance(item, Mapping))


def is_number(value: object) -> bool:
    """Whether something in a record is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def mean_over_seeds(curves: pandas.DataFrame, lines: Sequence[str]) -> pandas.DataFrame:
    """Return the mean of each line over its seeds, at the steps that all of them reached.

    `curves` has a row a seed and step of a line, with the columns `lines`, `seed`, `step` and numbers.
    """
    seeds = curves.groupby([*lines])["seed"].transform("nunique")
    reached = curves.groupby([*lines, "step"])["seed"].transform("nunique")
    shared = curves[reached == seeds].drop(columns="seed")
    means = shared.groupby([*lines, "step"], sort=False).mean(numeric_only=True)
    return means.reset_index()
