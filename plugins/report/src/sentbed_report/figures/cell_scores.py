"""Scores and training records of a study's runs, for figures that are not made from a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sentbed.protocols import START, Score, StageCurve
from sentbed.tools import from_plain

from sentbed_report.study.study_data import CellInfo, CellRun, StudyData

if TYPE_CHECKING:
    import pandas


def scores_after_training(data: StudyData) -> Iterator[tuple[CellInfo, CellRun, Score]]:
    """Yield each score of a study with its cell and run, except scores from before training."""
    for cell in data.cells:
        for run in cell.runs:
            for score in run.scores:
                if not score.encoder.endswith(START):
                    yield cell, run, score


def stages(data: StudyData) -> Iterator[tuple[CellRun, StageCurve]]:
    """Yield each run with the curves of each of its stages."""
    for cell in data.cells:
        for run in cell.runs:
            for stage in run.record.get("stages", ()):
                yield run, from_plain(stage, StageCurve)


def mean_over_runs(curves: pandas.DataFrame, lines: Sequence[str]) -> pandas.DataFrame:
    """Return the mean of each line over its runs (prompts and seeds), at the steps that all these runs reached.

    `lines` names the columns that identify a line, such as `cell`. `curves` has one row per run and step: these
    columns, then `prompt`, `seed`, `step`, and the columns to average.
    """
    with_runs = curves.assign(run=curves.groupby(["prompt", "seed"]).ngroup())
    runs = with_runs.groupby([*lines])["run"].transform("nunique")
    reached = with_runs.groupby([*lines, "step"])["run"].transform("nunique")
    shared = with_runs[reached == runs].drop(columns=["run", "seed"])
    means = shared.groupby([*lines, "step"], sort=False).mean(numeric_only=True)
    return means.reset_index()


def names_of_encoders(points: pandas.DataFrame) -> pandas.Series:
    """Return a name for each row: its cell, followed by its encoder if the rows have several encoders."""
    if points["encoder"].nunique() > 1:
        return points["cell"] + ": " + points["encoder"]
    return points["cell"]


def sentence_on_mean(curves: pandas.DataFrame) -> str:
    """Return a sentence on the runs that `mean_over_runs` averages; it is empty if each line has one run."""
    if curves["prompt"].nunique() > 1:
        return "Mean over the prompts and seeds, at the steps that all of the runs reached."
    if curves["seed"].nunique() > 1:
        return "Mean over the seeds, at the steps that all of them reached."
    return ""
