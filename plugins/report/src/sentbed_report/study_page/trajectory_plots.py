"""Plots of trajectories: two watched scores against each other over training."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

import attrs
from sentbed.protocols import Watched

from sentbed_report.report_json import score_of
from sentbed_report.run_plots import Plot
from sentbed_report.score_planes import Plane
from sentbed_report.study.study_data import StudyData
from sentbed_report.study_page.cell_plots import mappings
from sentbed_report.study_page.line_styles import TONES, chosen
from sentbed_report.training_curve_plots import (
    Place,
    Trajectory,
    TrajectoryPanel,
    trajectory_panels,
    trajectory_plot,
)

_Key = tuple[str, str, int]
"""Stage, title of the plane, and which of the planes of that title in one stage of a run."""


def trajectory_plots(data: StudyData, name: str) -> tuple[Plot, ...]:
    """Draw each plane of two watched scores, one line a cell: the mean over its seeds at each step."""
    planes: dict[_Key, Plane] = {}
    found: dict[_Key, dict[tuple[str, str], list[Sequence[Place]]]] = {}
    for cell in data.cells:
        for run in cell.runs:
            for stage in mappings(run.record.get("stages")):
                for key, panel in _panels(stage):
                    planes.setdefault(key, panel.plane)
                    for line in panel.lines:
                        runs = found.setdefault(key, {}).setdefault((cell.name, line.encoder), [])
                        runs.append(line.places)
    plots = (
        _plot(key, planes[key], lines, data, f"{name}{index}")
        for index, (key, lines) in enumerate(found.items())
    )
    return tuple(plot for plot in plots if plot is not None)


def _panels(stage: Mapping[str, Any]) -> Iterator[tuple[_Key, TrajectoryPanel]]:
    read = (_read(one) for one in mappings(stage.get("watched")))
    seen: Counter[str] = Counter()
    for panel in trajectory_panels(one for one in read if one is not None):
        yield (str(stage.get("name", "")), panel.title, seen[panel.title]), panel
        seen[panel.title] += 1


def _read(one: Mapping[str, Any]) -> Watched | None:
    """Return an entry of `watched` in `report.json`; None if a program wrote something else there."""
    try:
        named = {"encoder": one["encoder"], "evaluator": one["evaluator"], "value": None}
        series = [(score_of({**row, **named}), row["values"]) for row in one["series"]]
        columns = [[math.nan if value is None else float(value) for value in values] for _, values in series]
        looks = list(zip(map(int, one["steps"]), *columns, strict=True))
    except (KeyError, TypeError, ValueError):
        return None
    return Watched(
        one["encoder"],
        one["evaluator"],
        tuple(score for score, _ in series),
        [step for step, *_ in looks],
        [],
        [values for _, *values in looks],
    )


def _plot(
    key: _Key,
    plane: Plane,
    found: Mapping[tuple[str, str], Sequence[Sequence[Place]]],
    data: StudyData,
    name: str,
) -> Plot | None:
    means = {label: mean for label, runs in found.items() if (mean := _mean(runs))}
    if not means:
        return None
    several = len({encoder for _, encoder in means}) > 1
    cells = dict.fromkeys((cell for cell, _ in means), 0.0)
    shown = chosen(cells, data.baseline, max(1, TONES * len(cells) // len(means)))
    lines = tuple(
        Trajectory(f"{cell}: {encoder}" if several else cell, mean)
        for (cell, encoder), mean in means.items()
        if cell in shown
    )
    stage, title, _ = key
    plot = trajectory_plot(TrajectoryPanel(plane, title, lines), name)
    more = []
    if any(len(runs) > 1 for runs in found.values()):
        more.append("Mean over the seeds, at the steps that all of them reached.")
    if len(shown) < len(cells):
        more.append(f"Of {len(cells):,} cells {len(shown)} are drawn: the baseline and the first ones.")
    heading = f"Training in stage {stage}: {title}" if stage else title
    return attrs.evolve(plot, title=heading, caption=" ".join([plot.caption, *more]))


def _mean(runs: Sequence[Sequence[Place]]) -> tuple[Place, ...]:
    found = [{place.step: place for place in places} for places in runs]
    common = [step for step in found[0] if all(step in other for other in found)]
    return tuple(
        Place(step, fmean(one[step].x for one in found), fmean(one[step].y for one in found))
        for step in common
    )
