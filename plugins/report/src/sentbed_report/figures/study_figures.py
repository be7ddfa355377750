"""The kinds of figures that a study can have, and the figures of a study by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import attrs
from sentbed.errors import RunError, listed, suggest

from sentbed_report.figures.cell_planes import geometry_plots
from sentbed_report.figures.cell_trajectories import trajectory_plots
from sentbed_report.figures.learning_curves import learning_curves
from sentbed_report.figures.numeric_axes import numeric_axis_plots
from sentbed_report.figures.plot import Plot
from sentbed_report.figures.rank_groups import rank_groups_plot
from sentbed_report.figures.score_cost import cost_plot
from sentbed_report.study.score_against_cost import (
    names_of_costs,
    scores_against_cost,
)
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary

_Item = TypeVar("_Item")


@attrs.frozen
class FigureKind:
    """A kind of figure; a study may have several figures of one kind."""

    what: str
    """What the figure shows, in a few words."""
    needs: str
    """What a study must have for such a figure, in a few words."""
    draw: Callable[[StudyData, Sequence[Summary]], Iterable[Plot | None]]
    """Function that makes the plots from a study and its tables."""
    tables: bool = False
    """Whether the figure shows one column of a table. This is the last column, or that of a chosen task."""


def ranked_tables(summaries: Sequence[Summary]) -> list[Summary]:
    """Return the tables whose last column ranks the cells."""
    return [summary for summary in summaries if summary.columns[-1].ranked]


def _rank_plots(data: StudyData, tables: Sequence[Summary]) -> Iterator[Plot | None]:
    """Yield the plots of the compared cells, table by table."""
    for table in ranked_tables(tables):
        yield rank_groups_plot(data, table)


def _numeric_axis_plots(
    data: StudyData, tables: Sequence[Summary]
) -> Iterator[Plot | None]:
    """Yield the plots over the axes of numbers, table by table."""
    for table in ranked_tables(tables):
        yield from numeric_axis_plots(data, table)


def _cost_plots(data: StudyData, tables: Sequence[Summary]) -> Iterator[Plot | None]:
    """Yield the plots of scores against the costs that the study measured."""
    for against in scores_against_cost(tables, data.cost):
        yield cost_plot(data, against)


KINDS: Mapping[str, FigureKind] = {
    "ranks": FigureKind(
        "cells that cannot be told apart",
        "two cells that have finished",
        _rank_plots,
    ),
    "numbers": FigureKind(
        "scores over an axis of numbers",
        "an axis of numbers",
        _numeric_axis_plots,
        tables=True,
    ),
    "cost": FigureKind(
        "scores against a cost, with the Pareto front",
        "a cost that was measured",
        _cost_plots,
        tables=True,
    ),
    "geometry": FigureKind(
        "planes of two scores, such as alignment and uniformity",
        "two scores that are coordinates of a plane",
        lambda data, _: geometry_plots(data),
    ),
    "trajectory": FigureKind(
        "such planes over training",
        "stages that watch such scores",
        lambda data, _: trajectory_plots(data),
    ),
    "learning": FigureKind(
        "validation over training",
        "stages that validate",
        lambda data, _: learning_curves(data),
    ),
}
"""Kinds of figures by name, in the order of the report."""

NOTHING = "no figure of it can be drawn yet"


def plots_of(
    kind: FigureKind,
    data: StudyData,
    summaries: Sequence[Summary],
) -> list[Plot]:
    """Return the plots of a kind, in the order of the report."""
    return [plot for plot in kind.draw(data, summaries) if plot is not None]


def study_figures(
    data: StudyData,
    summaries: Sequence[Summary],
    task: str = "",
) -> dict[str, Plot]:
    """Return the figures of a study by name: `cost`, `cost-2` for the second figure of this kind, and so on.

    Figures of a table show its last column, which is the average if there is one. With `task`, they show the
    column of this task, and figures that are not made from a table are left out.

    Raises:
        RunError: if no table has the task.
    """
    if task:
        summaries = _tables_of_task(summaries, task, data.cost)

    figures: dict[str, Plot] = {}
    for name, kind in KINDS.items():
        if task and not kind.tables:
            continue
        for number, plot in enumerate(plots_of(kind, data, summaries), start=1):
            if number == 1:
                figures[name] = plot
            else:
                figures[f"{name}-{number}"] = plot
    return figures


def figure_named(
    figures: Mapping[str, Plot],
    name: str,
    task: str = "",
    summaries: Sequence[Summary] = (),
) -> Plot:
    """Return the figure called `name` from `figures`, which `study_figures` made from `summaries` and `task`.

    Raises:
        RunError: if no figure has this name; the message lists the names.
    """
    if name in figures:
        return figures[name]

    choices = NOTHING
    if figures:
        choices = f"its figures are {listed(figures)}"
    kind = KINDS.get(name)
    if kind is None:
        # Without a close name, `suggest` would list all names once more.
        suggestion = suggest(name, (*figures, *KINDS))
        close = f".{suggestion}" if "mean" in suggestion else ""
        raise RunError(f"the study has no figure `{name}`; {choices}{close}")
    if task and not kind.tables:
        raise RunError(f"the figure `{name}` is not of one task; leave the task out")

    costs = ", ".join(names_of_costs(summaries))
    if name == "cost" and costs:
        choices = f"set `cost` in `[study]` to one of {costs} and run `sentbed study` again; {choices}"
    raise RunError(f"the figure `{name}` ({kind.what}) needs {kind.needs}; {choices}")


def _tables_of_task(
    summaries: Sequence[Summary],
    task: str,
    cost: str,
) -> list[Summary]:
    """Return the tables that have a task, with the task's column moved to the end, where plots expect it.

    A table without the task is kept if it has costs, with its last cost at the end: plots of a score against a
    cost need it.

    Raises:
        RunError: if no ranked table has the task.
    """
    tasks: dict[str, None] = {}
    for summary in ranked_tables(summaries):
        tasks |= dict.fromkeys(column.task for column in summary.columns)
    if task not in tasks:
        choices = listed(tasks) or "none, since nothing has finished"
        raise RunError(
            f"the study has no scores of the task `{task}`; its tasks are: {choices}"
        )

    tables = []
    for summary in summaries:
        place = _place_of_task(summary, task, cost)
        if place is not None:
            tables.append(_with_last_column(summary, place))
    return tables


def _place_of_task(
    summary: Summary,
    task: str,
    cost: str,
) -> int | None:
    """Return the index of the task's first column.

    If the table has no such column, it is the index of the last column of a cost; None if there is no cost,
    either. `cost` is a task that counts as a cost.
    """
    place_of_cost = None
    for place, column in enumerate(summary.columns):
        if column.task == task:
            return place
        if column.cost or column.task == cost:
            place_of_cost = place
    return place_of_cost


def _with_last_column(summary: Summary, place: int) -> Summary:
    """Return a table with the column at index `place` moved to the end."""
    rows = []
    for row in summary.rows:
        rows.append(attrs.evolve(row, cells=_to_end(row.cells, place)))

    references = []
    for reference in summary.references:
        values = _to_end(reference.values, place)
        references.append(attrs.evolve(reference, values=values))

    return attrs.evolve(
        summary,
        columns=_to_end(summary.columns, place),
        rows=tuple(rows),
        references=tuple(references),
    )


def _to_end(items: tuple[_Item, ...], place: int) -> tuple[_Item, ...]:
    return (*items[:place], *items[place + 1 :], items[place])
