"""The figures of a study by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from sentbed.errors import RunError, listed, suggest

from sentbed_report.dots import Dot
from sentbed_report.figures.dots import dots_plot
from sentbed_report.figures.geometry import (
    PlacedScore,
    geometry_plots,
    scores_of_run,
    shades_of_cells,
    watched_scores,
)
from sentbed_report.figures.lines import line_plot
from sentbed_report.figures.plot import Plot
from sentbed_report.figures.scatter import scatter_plot
from sentbed_report.figures.training_curves import stages_of_study, validation_plots
from sentbed_report.run_cost import KEY as RUN_COST
from sentbed_report.study.axis_effects import (
    AxisFindings,
    axis_findings,
    together_with,
)
from sentbed_report.study.study_data import AxisInfo, StudyData
from sentbed_report.study.summary_row import RowKey, SummaryRow
from sentbed_report.study.summary_tables import Summary, title_of
from sentbed_report.tables.estimate import Estimate


def score_plots(data: StudyData, summaries: Sequence[Summary]) -> Iterator[Plot]:
    """Draw the cells of each ranked table with the intervals of their differences from the best cell."""
    for summary in _ranked(summaries):
        dots = score_dots(summary)
        if len(dots) > 1:
            caption = "Line: the interval of the difference from the best cell."
            label = _score_label(summary, len(summary.columns) - 1)
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
        dot = Dot(
            row.name,
            row.mean,
            low,
            high,
            strong=not row.beaten,
        )
        dots.append(dot)
    return dots


def effect_plots(findings: AxisFindings) -> Iterator[Plot]:
    """Draw one plot per axis: the difference of each label from the reference label, with its interval."""
    for effect in findings.effects:
        dots = []
        for label in effect.labels:
            test = label.judged
            if test.difference is None:
                continue

            dot = Dot(
                label.label,
                test.difference,
                strong=test.significant,
            )
            if test.interval is not None:
                low, high = test.interval
                dot = Dot(
                    label.label,
                    test.difference,
                    low,
                    high,
                    strong=test.significant,
                )
            dots.append(dot)

        if dots:
            axis_label = f"difference from {effect.reference}"
            yield dots_plot(effect.axis, axis_label, dots, 0)


def numeric_axis_plots(
    data: StudyData, summaries: Sequence[Summary], task: str = ""
) -> Iterator[Plot]:
    """Draw the scores of a task, by default of the last column, over each axis whose labels set numbers."""
    for summary in _ranked(summaries):
        place = place_of_task(summary, task)
        if place is None:
            continue
        for axis in data.axes:
            if axis.numbers is not None and len(set(axis.numbers)) > 1:
                yield from _over_axis(data, summary, place, axis)


def _over_axis(
    data: StudyData,
    summary: Summary,
    place: int,
    axis: AxisInfo,
) -> Iterator[Plot]:
    """Draw a column over an axis; cells that serve as references are dashed lines instead of points."""
    import pandas

    references = {}
    for reference in summary.references:
        value = reference.values[place]
        if value is not None:
            references[reference.name] = value
    cells = {reference.cell for reference in summary.references}
    numbers = dict(zip(axis.labels, axis.numbers or (), strict=True))
    ticks = {}
    points = []
    for row in summary.rows:
        score = row.cells[place]
        if row.cell in cells or not score.is_finite:
            continue

        label = row.labels[axis.name]
        number = numbers[label]
        ticks[label] = number
        name = _line_name(data, row, axis)
        points.append((name, number, score.value, score.std or 0.0))

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
    data: StudyData, summaries: Sequence[Summary], task: str = ""
) -> Iterator[Plot]:
    """Draw the scores of a task, by default of the last column, against the cost that the study measured."""
    import pandas

    costs, cost = _costs(data, summaries)
    if not costs:
        return
    for summary in _ranked(summaries):
        place = place_of_task(summary, task)
        if place is None or cost == summary.columns[place].task:
            continue
        points = []
        for row in summary.rows:
            x = costs.get(row.key)
            y = row.cells[place]
            if x is not None and y.is_finite:
                points.append((row.name, 0, x.value, y.value))

        if points:
            frame = pandas.DataFrame(points, columns=["name", "step", "x", "y"])
            title = f"{title_of(summary)} against {cost}"
            yield scatter_plot(title, (cost, _score_label(summary, place)), frame)


def _costs(
    data: StudyData, summaries: Sequence[Summary]
) -> tuple[dict[RowKey, Estimate], str]:
    """Return the cost of each row, and the name of the cost: the one that the study names, or the first."""
    for summary in summaries:
        for place, column in enumerate(summary.columns):
            # Every run has costs of its own, which are drawn only if the study names one.
            is_first = column.cost and summary.evaluator != RUN_COST and not data.cost
            if is_first or column.task == data.cost:
                return _finite_numbers(summary, place), column.task
    return {}, ""


def _finite_numbers(summary: Summary, place: int) -> dict[RowKey, Estimate]:
    """Return the finite numbers of a column."""
    numbers = {}
    for row in summary.rows:
        estimate = row.cells[place]
        if estimate.is_finite:
            numbers[row.key] = estimate
    return numbers


def _geometry_plots(data: StudyData, summaries: Sequence[Summary]) -> list[Plot]:
    scores: list[PlacedScore] = []
    for run in data.runs:
        scores += scores_of_run(run.cell, str(run), run.scores)
    return geometry_plots(scores, shades_of_cells(data), data.colour)


def _trajectory_plots(data: StudyData, summaries: Sequence[Summary]) -> list[Plot]:
    return geometry_plots(watched_scores(stages_of_study(data)))


def _effect_plots(data: StudyData, summaries: Sequence[Summary]) -> Iterable[Plot]:
    return chain.from_iterable(map(effect_plots, axis_findings(data, summaries)))


def _validation_plots(data: StudyData, summaries: Sequence[Summary]) -> list[Plot]:
    return validation_plots(stages_of_study(data))


KINDS: Mapping[str, Callable[[StudyData, Sequence[Summary]], Iterable[Plot]]] = {
    "scores": score_plots,
    "effects": _effect_plots,
    "numbers": numeric_axis_plots,
    "cost": cost_plots,
    "geometry": _geometry_plots,
    "trajectory": _trajectory_plots,
    "learning": _validation_plots,
}
"""Kind of figure -> function that draws the figures of this kind from a study and its tables."""

_OF_TASKS = {"numbers": numeric_axis_plots, "cost": cost_plots}
"""Kind of figure -> function that draws a column of a table: the last one, or that of a task."""

NOTHING = "no figure of it can be drawn yet"


def study_figures(
    data: StudyData,
    summaries: Sequence[Summary],
    task: str = "",
) -> dict[str, Plot]:
    """Return the figures of a study by name: `cost`, `cost-2` for the second figure of this kind, and so on.

    With `task`, figures of tables show the column of this task, and other figures are left out.

    Raises:
        RunError: if no table has the task.
    """
    if not task:
        return figures_of_kinds(data, summaries, KINDS)

    _require_task(summaries, task)
    plots = {}
    for name, draw_task in _OF_TASKS.items():
        plots[name] = draw_task(data, summaries, task)
    return _named(plots)


def figures_of_kinds(
    data: StudyData,
    summaries: Sequence[Summary],
    kinds: Iterable[str],
) -> dict[str, Plot]:
    """Return the figures of these kinds by name, as `study_figures` does of all kinds."""
    plots = {}
    for kind in kinds:
        plots[kind] = KINDS[kind](data, summaries)
    return _named(plots)


def _named(plots: Mapping[str, Iterable[Plot]]) -> dict[str, Plot]:
    """Return the plots of each kind by name."""
    figures: dict[str, Plot] = {}
    for name, of_kind in plots.items():
        for number, plot in enumerate(of_kind, start=1):
            if number == 1:
                figures[name] = plot
            else:
                figures[f"{name}-{number}"] = plot
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


def place_of_task(summary: Summary, task: str) -> int | None:
    """Return the index of a task's first column, of the last column if `task` is empty; None without the task."""
    if not task:
        return len(summary.columns) - 1
    for place, column in enumerate(summary.columns):
        if column.task == task:
            return place
    return None


def _require_task(summaries: Sequence[Summary], task: str) -> None:
    tasks: dict[str, None] = {}
    for summary in _ranked(summaries):
        tasks |= dict.fromkeys(column.task for column in summary.columns)
    if task not in tasks:
        raise RunError(
            f"the study has no scores of the task `{task}`.{suggest(task, list(tasks))}"
        )


def _ranked(summaries: Sequence[Summary]) -> list[Summary]:
    """Return the tables whose last column ranks the cells."""
    return [summary for summary in summaries if summary.columns[-1].ranked]


def _score_label(summary: Summary, place: int) -> str:
    """Return the axis label of a column: task and metric, such as `STSB (spearman)`."""
    column = summary.columns[place]
    if not column.unnamed_metric:
        return column.heading
    return f"{column.heading} ({column.unnamed_metric})"
