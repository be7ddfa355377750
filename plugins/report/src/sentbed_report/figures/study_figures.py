"""The figures of a study by name."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from sentbed.errors import RunError, listed, suggest

from sentbed_report.dots import Dot
from sentbed_report.figures.dots import dots_plot
from sentbed_report.figures.geometry import (
    geometry_plots,
    scores_of_study,
    shades_of_cells,
    watched_scores,
)
from sentbed_report.figures.lines import line_plot
from sentbed_report.figures.plot import Plot
from sentbed_report.figures.scatter import scatter_plot
from sentbed_report.figures.training_curves import stages_of_study, training_plots
from sentbed_report.study.axis_effects import axis_effects, together_with
from sentbed_report.study.study_data import AxisInfo, StudyData
from sentbed_report.study.summary_row import RowKey, SummaryRow
from sentbed_report.study.summary_tables import Summary, title_of

NOTHING = "no figure of it can be drawn yet"


def score_plots(summaries: Sequence[Summary]) -> Iterator[Plot]:
    """Draw the cells of each ranked table with the intervals of their differences from the best cell."""
    for summary, place in _ranked_columns(summaries):
        dots = score_dots(summary)
        if len(dots) > 1:
            caption = "Line: the interval of the difference from the best cell."
            label = _score_label(summary, place)
            yield dots_plot(title_of(summary), label, dots, dots[0].value, caption)


def score_dots(summary: Summary) -> list[Dot]:
    """Return the cells that are compared in a table's last column, the best first.

    The interval of a dot is that of the difference from the best cell, around the mean of the cell. Where the
    best cell is significantly better, it ends at the best at the latest.
    """
    if summary.groups is None:
        return []
    dots = []
    for row in summary.groups.rows:
        shift = row.mean - row.from_best
        low = row.low + shift
        high = row.high + shift
        # Holm's method finds more differences than these bounds, whose level is that of its first step.
        best = summary.groups.rows[0].mean
        if row.beaten and row.mean < best:
            high = min(high, best)
        elif row.beaten:
            low = max(low, best)
        dots.append(Dot(row.name, row.mean, low, high, strong=not row.beaten))
    return dots


def effect_plots(data: StudyData, summaries: Sequence[Summary]) -> Iterator[Plot]:
    """Draw one plot per table and axis: the difference of each label from the reference label, with interval."""
    for summary in summaries:
        for effect in axis_effects(data, summary):
            dots = []
            for label in effect.labels:
                judged = label.judged
                if judged.difference is None:
                    continue
                low, high = judged.interval or (math.nan, math.nan)
                strong = judged.significant
                dots.append(Dot(label.label, judged.difference, low, high, strong))
            if dots:
                label_of_axis = f"difference from {effect.reference}"
                yield dots_plot(effect.axis, label_of_axis, dots, 0)


def numeric_axis_plots(
    data: StudyData, summaries: Sequence[Summary], task: str
) -> Iterator[Plot]:
    """Draw the scores of a task, by default of the last column, over each axis whose labels set numbers."""
    for summary, place in _ranked_columns(summaries, task):
        for axis in data.axes:
            if axis.numbers is not None and len(set(axis.numbers)) > 1:
                yield from _over_axis(data, summary, place, axis)


def _over_axis(
    data: StudyData,
    summary: Summary,
    place: int,
    axis: AxisInfo,
) -> Iterator[Plot]:
    """Draw a column over an axis; cells that serve as references are horizontal lines instead of points."""
    import pandas

    references = {}
    for reference in summary.references:
        value = reference.values[place]
        if value is not None:
            references[reference.name] = value

    cells_of_references = {reference.cell for reference in summary.references}
    numbers = dict(zip(axis.labels, axis.numbers or (), strict=True))
    ticks = {}
    points = []
    for row in summary.rows:
        score = row.cells[place]
        if row.cell in cells_of_references or not score.is_finite:
            continue
        label = row.labels[axis.name]
        ticks[label] = numbers[label]
        name = _line_name(data, row, axis)
        points.append((name, numbers[label], score.value, score.std or 0.0))
    if len(set(ticks.values())) < 2:
        return

    frame = pandas.DataFrame(points, columns=["name", "x", "y", "error"])
    caption = ""
    if frame["error"].any():
        caption = "Bars: standard deviation over the seeds."
    labels = (axis.name, _score_label(summary, place))
    title = f"{title_of(summary)} by {axis.name}"
    yield line_plot(title, labels, frame, caption, references, ticks)


def _line_name(
    data: StudyData,
    row: SummaryRow,
    axis: AxisInfo,
) -> str:
    """Return the name of a row's line: the labels on the other axes, which all rows of the line share."""
    labels = []
    left_out = (axis.name, *together_with(data, axis))
    for other in data.axes:
        if other.name not in left_out and len(other.labels) > 1:
            labels.append(row.labels[other.name])
    if row.name != row.cell:
        labels.append(row.encoder)
    return ", ".join(labels)


def cost_plots(
    data: StudyData, summaries: Sequence[Summary], task: str
) -> Iterator[Plot]:
    """Draw the scores of a task, by default of the last column, against the cost that the study measured."""
    import pandas

    costs, cost = _costs(data, summaries)
    for summary, place in _ranked_columns(summaries, task):
        points = []
        for row in summary.rows:
            y = row.cells[place]
            if row.key in costs and y.is_finite:
                points.append((row.name, 0, costs[row.key], y.value))
        if points:
            frame = pandas.DataFrame(points, columns=["name", "step", "x", "y"])
            title = f"{title_of(summary)} against {cost}"
            yield scatter_plot(title, (cost, _score_label(summary, place)), frame)


def _costs(
    data: StudyData, summaries: Sequence[Summary]
) -> tuple[dict[RowKey, float], str]:
    """Return the cost of each row, and the name of the cost: the one that the study names, or the first."""
    for summary in summaries:
        for place, column in enumerate(summary.columns):
            is_first = column.cost and not data.cost
            if is_first or column.task == data.cost:
                costs = {}
                for row in summary.rows:
                    value = row.cells[place].value
                    if value is not None and math.isfinite(value):
                        costs[row.key] = value
                return costs, column.task
    return {}, ""


def study_figures(
    data: StudyData,
    summaries: Sequence[Summary],
    task: str = "",
    kinds: Collection[str] = (),
) -> dict[str, Plot]:
    """Return the figures of a study by name: `cost`, `cost-2` for the second figure of this kind, and so on.

    With `task`, the figures `numbers` and `cost` show the column of this task instead of the last one. `kinds`
    are the kinds to draw, by default all.

    Raises:
        RunError: if no table has the task.
    """
    tasks: dict[str, None] = {}
    for summary in summaries:
        tasks |= dict.fromkeys(column.task for column in summary.columns)
    if task and task not in tasks:
        raise RunError(
            f"the study has no scores of the task `{task}`.{suggest(task, list(tasks))}"
        )

    stages = list(stages_of_study(data))
    shades = shades_of_cells(data)
    plots: dict[str, Iterable[Plot]] = {
        "scores": score_plots(summaries),
        "effects": effect_plots(data, summaries),
        "numbers": numeric_axis_plots(data, summaries, task),
        "cost": cost_plots(data, summaries, task),
        "geometry": geometry_plots(scores_of_study(data), shades, data.colour),
        "trajectory": geometry_plots(watched_scores(stages)),
        "learning": training_plots(stages, only_validations=True),
    }
    figures = {}
    for kind in kinds or plots:
        for number, plot in enumerate(plots[kind], start=1):
            name = kind
            if number > 1:
                name = f"{kind}-{number}"
            figures[name] = plot
    return figures


def figure_named(figures: Mapping[str, Plot], name: str) -> Plot:
    """Return the figure called `name` from `figures`.

    Raises:
        RunError: if no figure has this name; the message lists the names.
    """
    if name in figures:
        return figures[name]
    choices = NOTHING
    if figures:
        choices = f"its figures are {listed(figures)}"
    raise RunError(f"the study has no figure `{name}`; {choices}")


def _ranked_columns(
    summaries: Sequence[Summary], task: str = ""
) -> Iterator[tuple[Summary, int]]:
    """Yield each table whose last column ranks the cells, with the index of the column of a task.

    Without a task, it is the last column; a table without the task is left out.
    """
    for summary in summaries:
        tasks = [column.task for column in summary.columns]
        if not summary.columns[-1].ranked:
            continue
        if not task:
            yield summary, len(tasks) - 1
        elif task in tasks:
            yield summary, tasks.index(task)


def _score_label(summary: Summary, place: int) -> str:
    """Return the axis label of a column: task and metric, such as `STSB (spearman)`."""
    column = summary.columns[place]
    if not column.unnamed_metric:
        return column.heading
    return f"{column.heading} ({column.unnamed_metric})"
