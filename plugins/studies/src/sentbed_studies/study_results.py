"""Results of a study for Python and notebooks."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from sentbed_report.figures.figure_files import DPI, WIDTH, write_figure
from sentbed_report.figures.study_figures import figure_named, study_figures
from sentbed_report.formatting import count
from sentbed_report.run_cost import KEY as RUN_COST
from sentbed_report.study.axis_columns import axis_column
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.decisions import Decisions
from sentbed_report.study.item_differences import item_differences
from sentbed_report.study.measurements import study_frame, with_axis_categories
from sentbed_report.study.read_study_directory import read_data
from sentbed_report.study.selection import Selection, select
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure
    from sentbed_report.figures.colours import Theme
    from sentbed_report.figures.plot import Plot

    from sentbed_studies.power_table import PowerTable

SCORE_COLUMNS = (
    "seed",
    "encoder",
    "evaluator",
    "protocol",
    "task",
    "metric",
    "value",
    "direction",
    "degenerate",
)
"""Columns of `LoadedStudy.scores` after `cell` and those of the axes."""

GROUPS = [
    "protocol",
    "task",
    "metric",
    "mean",
    "letters",
    "lowest_rank",
    "highest_rank",
    "from_best",
    "low",
    "high",
    "mean_rank",
    "task_letters",
]
"""Columns of `LoadedStudy.groups` after those that say what was scored."""


def load_study(directory: str | Path) -> LoadedStudy:
    """Return the results of the study in a directory, as far as they are; it may be running.

    Raises:
        RunError: if there is no study in the directory, or a file of it cannot be read.
    """
    return LoadedStudy(read_data(directory))


@attrs.define(slots=False, eq=False, repr=False)
class LoadedStudy:
    """Results of a study, as they were when it was loaded.

    In a notebook it shows its tables.
    """

    data: StudyData
    """Everything that is known of it: cells, runs with their directories and records, excluded cells."""

    @property
    def name(self) -> str:
        """Name of the study."""
        return self.data.name

    @property
    def axes(self) -> Mapping[str, tuple[str, ...]]:
        """Name of each axis -> its labels, as in the recipe."""
        return {axis.name: axis.labels for axis in self.data.axes}

    @property
    def baseline(self) -> str | None:
        """Name of the cell that others are compared with."""
        return self.data.baseline

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of every cell."""
        return self.data.seeds

    @property
    def prompts(self) -> tuple[str, ...]:
        """Labels of the prompts with which every cell is run; empty without `[study] prompts`."""
        return self.data.prompts

    @property
    def decisions(self) -> Decisions | None:
        """What was stopped, when and why; None without `[study.stop]`, or before the first look."""
        return self.data.decisions

    @cached_property
    def tables(self) -> tuple[Summary, ...]:
        """Tables of the report: mean, standard deviation, places and tests; `print` shows one as text."""
        return summarise(self.data)

    @cached_property
    def chosen(self) -> Selection | None:
        """The cell with the best deciding score, what it was chosen among, and its scores on test data.

        None if the recipe has no `[study.decide]`.
        """
        return select(self.data, self.tables)

    @cached_property
    def numbers(self) -> pandas.DataFrame:
        """Every number of the study, one a row: `scores`, and in the same form what encoders and runs cost.

        Further columns: `split` (`test` or `development`), `axis` (`cost` of a cost) and `score`, the score
        itself with the items behind it.
        """
        return study_frame(self.data)

    @cached_property
    def scores(self) -> pandas.DataFrame:
        """Every score of every finished run, one per row, also those before training (`NAME@start`).

        Columns: `cell`, a column per axis with its labels (`axis NAME` if a table of a study has a column of
        that name), `prompt` in a study with `prompts`, `seed`, `encoder`, `evaluator`, `protocol`, `task`,
        `metric`, `value`, `direction`, `degenerate`. Axes are ordered categories, in the order of the recipe.
        """
        scores = self.numbers[self.numbers["evaluator"] != RUN_COST]
        return scores[
            ["cell", *self._axis_columns, *self._prompt_column, *SCORE_COLUMNS]
        ].reset_index(drop=True)

    @cached_property
    def costs(self) -> pandas.DataFrame:
        """What each finished run costs, one encoder per row, with a column for each cost.

        Columns: `cell`, a column per axis, `seed`, `encoder` and `evaluator` as in `scores`, and a column for
        each task of a score that is a cost (`axis` is `cost`), such as `passes`; `cost NAME` if an axis or a
        column of `scores` has its name. A cost that was measured twice in a run, as on other texts, begins
        another row, and so does what the run took as a whole, with shared stages: `run-seconds` and so on, of
        the evaluator `run-cost`.
        """
        costs = self._numbered_costs(["encoder", "evaluator"])
        places = [
            "cell",
            *self._axis_columns,
            *self._prompt_column,
            "seed",
            "encoder",
            "evaluator",
        ]
        lines = [*places, "time"]
        wide = costs.pivot(index=lines, columns="column", values="value").reset_index()
        order = costs.drop_duplicates(lines)[lines]
        columns = list(dict.fromkeys(costs["column"]))
        # A pivot sorts its rows: back into the order of the runs.
        return order.merge(wide, how="left", on=lines)[[*places, *columns]]

    @cached_property
    def tidy(self) -> pandas.DataFrame:
        """Scores and costs side by side: `scores` without the costs, with a column for each of these.

        The costs of a row are those of its encoder and, as `run-seconds` and so on, those of its run as a
        whole; what was not measured is missing. A cost's column is named as in `costs`; what was measured
        twice in a run, as on other texts, has a second one, such as `passes 2`.
        """
        costs = self._numbered_costs(["encoder"])
        columns = []
        for name, time in zip(costs["column"], costs["time"], strict=True):
            if time:
                name = f"{name} {time + 1}"  # noqa: PLW2901
            columns.append(name)
        costs["column"] = columns
        places = ["cell", *self._prompt_column, "seed", "encoder"]
        wide = costs.pivot(index=places, columns="column", values="value").reset_index()
        wide = wide[[*places, *dict.fromkeys(costs["column"])]]
        scores = self.numbers[self.numbers["axis"] != "cost"]
        scores = scores[
            ["cell", *self._axis_columns, *self._prompt_column, *SCORE_COLUMNS]
        ]
        return scores.merge(wide, how="left", on=places)

    def _numbered_costs(self, places: list[str]) -> pandas.DataFrame:
        """Return all costs with the name of their column, and how often that was there before in a run."""
        costs = self.numbers[self.numbers["axis"] == "cost"].copy()
        taken = {"cell", "prompt", *self._axis_columns, *SCORE_COLUMNS}
        columns = []
        for task in costs["task"]:
            name = f"cost {task}" if task in taken else task
            columns.append(name)
        costs["column"] = columns
        of_run = ["cell", *self._prompt_column, "seed"]
        costs["time"] = costs.groupby(
            [*of_run, *places, "column"], observed=True
        ).cumcount()
        return costs

    def power(
        self,
        seeds: Sequence[int] = (),
        differences: Sequence[float] = (),
        power: float = 0.8,
        level: float = 0.05,
    ) -> tuple[PowerTable, ...]:
        """Return which differences from the baseline so many seeds find, by the spread of this study.

        One per table, on its last column; `print` shows it. `seeds` are by default those of the study, twice
        and four times as many; of each of `differences` it has the seeds needed.

        Raises:
            RunError: if no cell was compared with the baseline under two seeds or more, or an argument is out
                of its range.
        """
        from sentbed_studies.power_table import power_of_study

        return power_of_study(self.data, seeds, differences, power, level)

    @cached_property
    def groups(self) -> pandas.DataFrame:
        """Which cells cannot be told apart, a row for each cell and ranked table, the best first.

        Columns: `cell`, a column per axis as in `scores`,
        `encoder` and `evaluator`; `protocol`, `task` and `metric` of the last column of the table; `mean`,
        `letters` (cells that share one cannot be told apart), `lowest_rank` and `highest_rank`; `from_best`,
        `low` and `high`, the difference from the best with bounds for all pairs at once; and, where a table
        has many tasks, `mean_rank` and `task_letters` over them.
        """
        import pandas

        labels = {cell.name: cell.labels for cell in self.data.cells}
        rows = []
        for table in self.tables:
            groups = table.groups
            if groups is None:
                continue
            over_tasks = groups.tasks.rows if groups.tasks is not None else ()
            ranks = {(rank.cell, rank.encoder): rank for rank in over_tasks}
            for row in groups.rows:
                rank = ranks.get((row.cell, row.encoder))
                mean_rank, task_letters = None, None
                if rank is not None:
                    mean_rank, task_letters = rank.mean_rank, rank.letters
                rows.append(
                    {
                        # Before the labels: an axis may be called `name`, which is no column.
                        **attrs.asdict(row),
                        **{
                            axis_column(axis): label
                            for axis, label in labels[row.cell].items()
                        },
                        **table.ranked_by,
                        "letters": row.letters,
                        "mean_rank": mean_rank,
                        "task_letters": task_letters,
                    }
                )
        columns = ["cell", *self._axis_columns, "encoder", "evaluator", *GROUPS]
        return with_axis_categories(pandas.DataFrame(rows, columns=columns), self.data)

    def items(self, first: str, second: str, task: str) -> pandas.DataFrame:
        """Return the items that make the difference of two cells in a task, the largest shares first.

        Columns: `item` (its number in the data, from 0), `gold`, `first` and `second` (predictions of the
        cells, as means over their seeds), `share` (of the second cell less the first, in the unit of the
        score; their sum is the difference), `group`.

        Raises:
            RunError: if a cell has no items in the task, or there is no such cell.
        """
        return item_differences(self.data, first, second, task)

    @cached_property
    def figures(self) -> Mapping[str, str]:
        """Name of each figure that `plot` can draw -> its title, in the order of the report."""
        return {name: plot.title for name, plot in self._plots("").items()}

    def plot(
        self,
        name: str,
        file: str | Path | None = None,
        *,
        task: str = "",
        width: float = WIDTH,
        height: float | None = None,
        dpi: int = DPI,
        theme: Theme = "light",
    ) -> Figure:
        """Draw a figure of the report, such as `cost`; with `file`, also write it, as PDF, SVG or PNG.

        `figures` has the names. Those of tables are of the average where there is one, or of `task`. `width`
        and `height` are inches; the height is by default in proportion to that in the report. `dpi` is the
        resolution of PNG. Letters that no font has are a `UserWarning` when the file is written.

        Raises:
            RunError: if there is no such figure or task, a size is out of range, or the file cannot be
                written.
        """
        plot = figure_named(self._plots(task), name, task, self.tables)
        figure = plot.figure(width, height, theme)
        if file is not None and (
            remark := write_figure(figure, Path(file), plot.title, dpi)
        ):
            warnings.warn(remark, stacklevel=2)
        return figure

    def _plots(self, task: str) -> dict[str, Plot]:
        return study_figures(self.data, self.tables, task)

    @property
    def _prompt_column(self) -> list[str]:
        return ["prompt"] if self.data.prompts else []

    @property
    def _axis_columns(self) -> list[str]:
        return [axis_column(axis) for axis in self.axes]

    def __repr__(self) -> str:
        data = self.data
        axes = " x ".join(f"{len(labels)} {name}" for name, labels in self.axes.items())
        sizes = f"{count(len(data.cells), 'cell')} ({axes})"
        if data.prompts:
            sizes += f" x {count(len(data.prompts), 'prompt')}"
        sizes += f" x {count(len(data.seeds), 'seed')}"
        return f"<study {data.name}: {sizes}, {data.finished:,} of {count(data.total, 'run')} finished>"

    def _repr_html_(self) -> str:
        tables = "".join(table._repr_html_() for table in self.tables)
        return f"<p>{escape(repr(self)[1:-1])}</p>{tables}"
