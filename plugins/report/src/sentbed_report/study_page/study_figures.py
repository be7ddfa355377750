"""The figures of a study by name: the plots of its report, for its page, for files and for notebooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import attrs
from sentbed.errors import RunError, suggest

from sentbed_report.run_plots import Plot
from sentbed_report.study.score_against_cost import scores_against_cost, title_of_both
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary
from sentbed_report.study_page.axis_effect_plots import effects_plot, number_plots
from sentbed_report.study_page.cell_plots import geometry_plots, learning_curves, ranking_plot
from sentbed_report.study_page.rank_groups_plots import rank_groups_plot
from sentbed_report.study_page.score_cost_plots import cost_plot
from sentbed_report.study_page.sweep_plots import sweep_plots
from sentbed_report.study_page.trajectory_plots import trajectory_plots

_Draw: TypeAlias = Callable[[StudyData, Sequence[Summary]], Iterable[Plot | None]]


@attrs.frozen
class FigureKind:
    """A kind of figure: of each there may be several."""

    what: str
    needs: str
    """What a study must have for it."""
    draw: _Draw
    tables: bool = False
    """Whether it is of the last column of a table, and can be of any other."""


def _effects(data: StudyData, summaries: Sequence[Summary]) -> Iterable[Plot | None]:
    return (effects_plot(data, one, f"e{i}") for i, one in enumerate(_ranked(summaries)))


def _ranks(data: StudyData, summaries: Sequence[Summary]) -> Iterable[Plot | None]:
    return (rank_groups_plot(data, one, f"r{i}") for i, one in enumerate(_ranked(summaries)))


def _numbers(data: StudyData, summaries: Sequence[Summary]) -> Iterable[Plot | None]:
    return (plot for i, one in enumerate(_ranked(summaries)) for plot in number_plots(data, one, f"n{i}-"))


def _costs(data: StudyData, summaries: Sequence[Summary]) -> Iterable[Plot | None]:
    against = scores_against_cost(summaries, data.cost)
    return (cost_plot(data, one, title_of_both(one), f"c{i}") for i, one in enumerate(against))


KINDS: Mapping[str, FigureKind] = {
    "effects": FigureKind(
        "cells and mean of each label, axis by axis", "an axis with two labels to compare", _effects, True
    ),
    "ranks": FigureKind("cells that cannot be told apart", "two cells that have finished", _ranks),
    "numbers": FigureKind("scores over an axis of numbers", "an axis of numbers", _numbers, True),
    "cost": FigureKind(
        "scores against a cost, with the Pareto front", "a cost that was measured", _costs, True
    ),
    "sweep": FigureKind(
        "scores with coordinates, such as throughput by length",
        "scores with coordinates",
        lambda data, _: sweep_plots(data, "x"),
    ),
    "geometry": FigureKind(
        "planes of two scores, such as alignment and uniformity",
        "two scores that are coordinates of a plane",
        lambda data, _: geometry_plots(data, "g"),
    ),
    "trajectory": FigureKind(
        "such planes over training",
        "stages that watch such scores",
        lambda data, _: trajectory_plots(data, "t"),
    ),
    "ranking": FigureKind(
        "scores of demonstrations", "cells with `[search]`", lambda data, _: [ranking_plot(data, "d")]
    ),
    "learning": FigureKind(
        "validation over training", "stages that validate", lambda data, _: learning_curves(data, "v")
    ),
}
"""Name of a kind -> the kind, in the order of the report."""


def plots_of(kind: FigureKind, data: StudyData, summaries: Sequence[Summary]) -> list[Plot]:
    """Return the plots of a kind, in the order of the report."""
    return [plot for plot in kind.draw(data, summaries) if plot is not None]


def study_figures(data: StudyData, summaries: Sequence[Summary], task: str = "") -> dict[str, Plot]:
    """Return the figures of a study by name: `cost`, and `cost-2` for the second one of its kind.

    Those of tables are of the last column, the average if there is one; with `task`, of this one, without the
    figures that are of no table.

    Raises:
        RunError: if no table has the task.
    """
    if task:
        tasks = dict.fromkeys(column.task for one in _ranked(summaries) for column in one.columns)
        if task not in tasks:
            listed = ", ".join(f"`{one}`" for one in tasks) or "none, since nothing has finished"
            raise RunError(f"the study has no scores of the task `{task}`; its tasks are: {listed}")
        ending = (_of_task(one, task, data.cost) for one in summaries)
        summaries = [one for one in ending if one is not None]
    found: dict[str, Plot] = {}
    for name, kind in KINDS.items():
        if kind.tables or not task:
            for number, plot in enumerate(plots_of(kind, data, summaries), start=1):
                found[name if number == 1 else f"{name}-{number}"] = plot
    return found


NOTHING = "nothing of it can be drawn yet"


def figure_named(
    figures: Mapping[str, Plot], name: str, task: str = "", summaries: Sequence[Summary] = ()
) -> Plot:
    """Return a figure of `study_figures`; `summaries` are the tables that it was made from.

    Raises:
        RunError: if there is none of that name; it says which there are.
    """
    if name in figures:
        return figures[name]
    listed = ", ".join(f"`{one}`" for one in figures)
    there = f"its figures are {listed}" if figures else NOTHING
    kind = KINDS.get(name)
    if kind is None:
        # Only what is close: all names are listed already.
        close = suggest(name, (*figures, *KINDS))
        raise RunError(
            f"the study has no figure `{name}`; {there}" + (f".{close}" if "mean" in close else "")
        )
    if task and not kind.tables:
        raise RunError(f"the figure `{name}` is not of one task; leave the task out")
    costs = dict.fromkeys(column.task for one in summaries for column in one.columns if column.cost)
    if name == "cost" and costs:
        known = ", ".join(f"`{one}`" for one in costs)
        there = f"set `cost` in `[study]` to one of {known} and run `sentbed study` again; {there}"
    raise RunError(f"the figure `{name}` ({kind.what}) needs {kind.needs}; {there}")


def _ranked(summaries: Sequence[Summary]) -> list[Summary]:
    return [summary for summary in summaries if summary.columns[-1].ranked]


def _of_task(summary: Summary, task: str, cost: str) -> Summary | None:
    """Return a table with the column of a task as its last, which plots are of; None without one.

    A table without the task stays for its costs, and ends in the last of them: the first is that of plots.
    """
    wanted = [index for index, column in enumerate(summary.columns) if column.task == task][:1]
    wanted = wanted or [i for i, column in enumerate(summary.columns) if column.cost or column.task == cost]
    if not wanted:
        return None
    order = [*(index for index in range(len(summary.columns)) if index != wanted[-1]), wanted[-1]]
    rows = (attrs.evolve(row, cells=tuple(row.cells[i] for i in order)) for row in summary.rows)
    references = (attrs.evolve(one, values=tuple(one.values[i] for i in order)) for one in summary.references)
    columns = tuple(summary.columns[i] for i in order)
    return attrs.evolve(summary, columns=columns, rows=tuple(rows), references=tuple(references))
