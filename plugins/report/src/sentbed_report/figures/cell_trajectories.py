"""Trajectories of a study's cells: two watched scores against each other over training."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
from sentbed.protocols import Watched

from sentbed_report.figures.cell_scores import mappings, mean_over_seeds, stages
from sentbed_report.figures.cell_styles import best_cells, sentence_on_missing
from sentbed_report.figures.colours import SERIES
from sentbed_report.figures.plot import Plot
from sentbed_report.figures.trajectories import (
    Place,
    Trajectory,
    TrajectoryPanel,
    trajectory_panels,
    trajectory_plot,
)
from sentbed_report.report_json import read_score
from sentbed_report.study.study_data import StudyData

if TYPE_CHECKING:
    import pandas

_PlaneKey: TypeAlias = tuple[str, str, int]
"""Stage, title of the plane, and which of the planes of that title in one stage of a run."""


@attrs.define
class _Curves:
    """Lines of one plane: those of all seeds."""

    panel: TrajectoryPanel
    lines: dict[tuple[str, str], list[pandas.DataFrame]] = attrs.field(factory=dict)
    """Cell and encoder -> x and y at each step, one a seed."""


def trajectory_plots(data: StudyData, name: str) -> tuple[Plot, ...]:
    """Draw each plane of two watched scores, one line a cell: the mean over its seeds at each step."""
    import pandas

    planes: dict[_PlaneKey, _Curves] = {}
    for cell, stage in stages(data):
        for key, panel in _panels(stage):
            curves = planes.setdefault(key, _Curves(panel))
            for line in panel.lines:
                places = pandas.DataFrame(
                    {"x": [place.x for place in line.places], "y": [place.y for place in line.places]},
                    index=[place.step for place in line.places],
                )
                curves.lines.setdefault((cell.name, line.encoder), []).append(places)
    plots = []
    for index, ((stage_name, _, _), curves) in enumerate(planes.items()):
        plot = _plot(data, stage_name, curves, f"{name}{index}")
        if plot is not None:
            plots.append(plot)
    return tuple(plots)


def _panels(stage: Mapping[str, Any]) -> Iterator[tuple[_PlaneKey, TrajectoryPanel]]:
    watched = [_watched(entry) for entry in mappings(stage.get("watched"))]
    titles: Counter[str] = Counter()
    for panel in trajectory_panels(watch for watch in watched if watch is not None):
        yield (str(stage.get("name", "")), panel.title, titles[panel.title]), panel
        titles[panel.title] += 1


def _watched(entry: Mapping[str, Any]) -> Watched | None:
    """Return an entry of `watched` in `report.json`; None if a program wrote something else there."""
    try:
        measured = {"encoder": entry["encoder"], "evaluator": entry["evaluator"], "value": None}
        steps = [int(step) for step in entry["steps"]]
        scores = []
        columns = []
        for series in entry["series"]:
            scores.append(read_score({**series, **measured}))
            columns.append([math.nan if value is None else float(value) for value in series["values"]])
        looks = [list(values) for _, *values in zip(steps, *columns, strict=True)]
    except (KeyError, TypeError, ValueError):
        return None
    return Watched(entry["encoder"], entry["evaluator"], tuple(scores), steps, [], looks)


def _plot(data: StudyData, stage: str, curves: _Curves, name: str) -> Plot | None:
    means = {}
    for line, of_seeds in curves.lines.items():
        mean = mean_over_seeds(of_seeds)
        if not mean.empty:
            means[line] = mean
    if not means:
        return None
    several = len({encoder for _, encoder in means}) > 1
    cells = dict.fromkeys((cell for cell, _ in means), 0.0)
    # As many cells as there are colours for their encoders.
    shown = best_cells(cells, data.baseline, max(1, SERIES * len(cells) // len(means)))
    lines = []
    for (cell, encoder), mean in means.items():
        if cell in shown:
            places = _places(mean)
            lines.append(Trajectory(f"{cell}: {encoder}" if several else cell, places))
    plot = trajectory_plot(attrs.evolve(curves.panel, lines=tuple(lines)), name)
    captions = [plot.caption]
    if any(len(of_seeds) > 1 for of_seeds in curves.lines.values()):
        captions.append("Mean over the seeds, at the steps that all of them reached.")
    if len(shown) < len(cells):
        captions.append(f"Of {len(cells):,} cells {len(shown)} are drawn: the baseline and the first ones.")
    captions.append(sentence_on_missing(data, cells, "watched scores"))
    title = f"Training in stage {stage}: {plot.title}" if stage else plot.title
    return attrs.evolve(plot, title=title, caption=" ".join(filter(None, captions)))


def _places(mean: pandas.DataFrame) -> tuple[Place, ...]:
    return tuple(Place(int(step), float(x), float(y)) for step, x, y in mean.itertuples())
