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
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
    )


def mean_over_runs(curves: pandas.DataFrame, lines: Sequence[str]) -> pandas.DataFrame:
    """Return the mean of each line over its prompts and seeds, at the steps that all of its runs reached.

    `curves` has a row a run and step of a line, with the columns `lines`, `prompt`, `seed`, `step` and
    numbers.
    """
    with_runs = curves.assign(run=curves.groupby(["prompt", "seed"]).ngroup())
    runs = with_runs.groupby([*lines])["run"].transform("nunique")
    reached = with_runs.groupby([*lines, "step"])["run"].transform("nunique")
    shared = with_runs[reached == runs].drop(columns=["run", "seed"])
    means = shared.groupby([*lines, "step"], sort=False).mean(numeric_only=True)
    return means.reset_index()


def sentence_on_mean(curves: pandas.DataFrame) -> str:
    """Return what `mean_over_runs` is over; empty if that is one run."""
    if curves["prompt"].nunique() > 1:
        return "Mean over the prompts and seeds, at the steps that all of the runs reached."
    if curves["seed"].nunique() > 1:
        return "Mean over the seeds, at the steps that all of them reached."
    return ""
