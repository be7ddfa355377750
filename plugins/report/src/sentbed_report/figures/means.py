"""Means of the runs of a cell, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas


def mean_over_runs(
    points: pandas.DataFrame,
    lines: Sequence[str],
    values: Sequence[str],
) -> pandas.DataFrame:
    """Return the mean of each line over its runs, at the steps that the most runs reached.

    `points` has a row per run and step: the columns `lines`, which identify a line, `run`, `step`, and `values`,
    the columns to average.
    """
    groups = points.groupby([*lines, "step"], sort=False)
    means = groups[[*values]].mean()
    means["runs"] = groups["run"].nunique()
    means = means.reset_index()
    most = means.groupby([*lines])["runs"].transform("max")
    return means[means["runs"] == most]


def names_of_encoders(points: pandas.DataFrame) -> pandas.Series:
    """Return the cell of each point, its encoder, or both, as far as they differ between the points."""
    if points["encoder"].nunique() == 1:
        return points["cell"]
    if points["cell"].nunique() == 1:
        return points["encoder"]
    return points["cell"] + ": " + points["encoder"]
