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
"""Columns of `LoadedStudy.scores` after `cell` and the columns of the axes."""

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
"""Columns of `LoadedStudy.groups` after cell, axes, encoder and evaluator."""


def load_study(directory: str | Path) -> LoadedStudy:
    """Return the results so far of the study in a directory, which may still be running.

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
    """Content of its directory: cells, runs with their directories and records, excluded cells."""

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
        """Which cells were stopped, when and why; None without `[study.stop]`, or before the first look."""
        return self.data.decisions

    @cached_property
    def tables(self) -> tuple[Summary, ...]:
        """Tables of the report: means, standard deviations, ranks and tests; `print` shows one as text."""
        return summarise(self.data)

    @cached_property
    def chosen(self) -> Selection | None:
        """The cell with the best deciding score, the number of candidates, and its scores on test data.

        None if the recipe has no `[study.decide]`.
        """
        return select(self.data, self.tables)

    @cached_property
    def numbers(self) -> pandas.DataFrame:
        """All numbers of the study, one per row: the `scores`, and the costs of encoders and runs.

        It has the columns of `scores`, and `split` (`test` or `development`), `axis` (`cost` if the number
        is a cost) and `score` (the `Score` itself, with its items).
        """
        return study_frame(self.data)

    @cached_property
    def scores(self) -> pandas.DataFrame:
        """All scores of all finished runs, one per row; those before training have the encoder `NAME@start`.

        Columns: `cell`, a column per axis with its labels (`axis NAME` if a table of a study has a column of
        that name), `prompt` in a study with `prompts`, `seed`, `encoder`, `evaluator`, `protocol`, `task`,
        `metric`, `value`, `direction`, `degenerate`. Axes are ordered categories, in the order of the recipe.
        """
        scores = self.numbers[self.numbers["evaluator"] != RUN_COST]
        return scores[self._score_columns].reset_index(drop=True)

    @cached_property
    def costs(self) -> pandas.DataFrame:
        """Costs of all finished runs, one row per encoder and evaluator, one column per cost.

        Columns: `cell`, a column per axis, `seed`, `encoder` and `evaluator` as in `scores`, and a column for
        each task of a score that is a cost (`axis` is `cost`), such as `passes`; `cost NAME` if an axis or a
        column of `scores` has its name. If a cost was measured twice in a run, such as on other texts, there
        is a second row. The costs of the whole run, with shared stages, have a row of their own: `run-seconds`
        and so on, of the evaluator `run-cost`.
        """
        costs = self._numbered_costs(["encoder", "evaluator"])
        keys = [
            "cell",
            *self._axis_columns,
            *self._prompt_column,
            "seed",
            "encoder",
            "evaluator",
        ]
        keys_of_row = [*keys, "repetition"]
        wide = costs.pivot(index=keys_of_row, columns="column", values="value")
        # A pivot sorts its rows: merged into the order of the runs.
        rows = costs.drop_duplicates(keys_of_row)[keys_of_row]
        rows = rows.merge(wide.reset_index(), how="left", on=keys_of_row)
        return rows[[*keys, *dict.fromkeys(costs["column"])]]

    @cached_property
    def tidy(self) -> pandas.DataFrame:
        """The `scores` that are no costs, with further columns for the costs.

        The costs of a row are those of its encoder and, as `run-seconds` and so on, those of the whole run;
        values that were not measured are missing. Columns are named as in `costs`; if a cost was measured
        twice in a run, such as on other texts, it has a second column, such as `passes 2`.
        """
        costs = self._numbered_costs(["encoder"])
        columns = []
        for name, repetition in zip(costs["column"], costs["repetition"], strict=True):
            number = f" {repetition + 1}" if repetition else ""
            columns.append(f"{name}{number}")

        costs["column"] = columns
        keys = ["cell", *self._prompt_column, "seed", "encoder"]
        wide = costs.pivot(index=keys, columns="column", values="value").reset_index()
        wide = wide[[*keys, *dict.fromkeys(columns)]]
        scores = self.numbers[self.numbers["axis"] != "cost"][self._score_columns]
        return scores.merge(wide, how="left", on=keys)

    def _numbered_costs(self, keys: list[str]) -> pandas.DataFrame:
        """Return all costs with the columns `column`, its name, and `repetition`, its number in a run, from 0.

        `keys` are columns, beside the run, whose values have repetitions of their own.
        """
        costs = self.numbers[self.numbers["axis"] == "cost"].copy()
        taken = {"cell", "prompt", *self._axis_columns, *SCORE_COLUMNS}
        names = []
        for task in costs["task"]:
            name = f"cost {task}" if task in taken else task
            names.append(name)

        costs["column"] = names
        columns = ["cell", *self._prompt_column, "seed", *keys, "column"]
        costs["repetition"] = costs.groupby(columns, observed=True).cumcount()
        return costs

    def power(
        self,
        seeds: Sequence[int] = (),
        differences: Sequence[float] = (),
        power: float = 0.8,
        level: float = 0.05,
    ) -> tuple[PowerTable, ...]:
        """Return the smallest differences from the baseline that numbers of seeds find, by this study's spread.

        There is one result per table, for its last column; `print` shows it. `seeds` is by default the number
        of seeds of the study, twice and four times that; for each of `differences`, the result has the number
        of seeds that finds it.

        Raises:
            RunError: if no cell was compared with the baseline under two seeds or more, or an argument is out
                of its range.
        """
        from sentbed_studies.power_table import power_of_study

        return power_of_study(self.data, seeds, differences, power, level)

    @cached_property
    def groups(self) -> pandas.DataFrame:
        """Which cells do not differ significantly: a row per cell of each ranked table, the best cell first.

        Columns: `cell`, a column per axis as in `scores`, `encoder` and `evaluator`; `protocol`, `task` and
        `metric` of the last column of the table; `mean`, `letters` (cells that share a letter do not differ
        significantly), `lowest_rank` and `highest_rank`; `from_best`, `low` and `high`, the difference from
        the best with simultaneous bounds for all pairs; and, if a table has many tasks, `mean_rank` and
        `task_letters` over them.
        """
        import pandas

        labels = {cell.name: cell.labels for cell in self.data.cells}
        rows = []
        for table in self.tables:
            groups = table.groups
            if groups is None:
                continue
            ranks = {}
            if groups.tasks is not None:
                for rank in groups.tasks.rows:
                    ranks[rank.cell, rank.encoder] = rank.mean_rank, rank.letters
            for row in groups.rows:
                # First, as an axis may be called `name` or `value`, like fields that are no columns.
                values = attrs.asdict(row)
                for axis, label in labels[row.cell].items():
                    values[axis_column(axis)] = label
                values |= table.ranked_by
                values["letters"] = row.letters
                mean_rank, task_letters = ranks.get(
                    (row.cell, row.encoder), (None, None)
                )
                values["mean_rank"] = mean_rank
                values["task_letters"] = task_letters
                rows.append(values)

        columns = ["cell", *self._axis_columns, "encoder", "evaluator", *GROUPS]
        return with_axis_categories(pandas.DataFrame(rows, columns=columns), self.data)

    def items(self, first: str, second: str, task: str) -> pandas.DataFrame:
        """Return the contribution of each item to the difference of two cells in a task, largest first.

        Columns: `item` (its index in the data), `gold`, `first` and `second` (predictions of the cells,
        averaged over their seeds), `share` (contribution to the score of the second cell minus that of the
        first; the sum is the difference), `group`.

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

        `figures` has the names. Figures of a table show `task`, by default the average if there is one.
        `width` and `height` are inches; the height is by default in proportion to that in the report. `dpi`
        is the resolution of PNG. Characters that no font has are a `UserWarning` when the file is written.

        Raises:
            RunError: if there is no such figure or task, a size is out of range, or the file cannot be
                written.
        """
        plot = figure_named(self._plots(task), name, task, self.tables)
        figure = plot.figure(width, height, theme)
        if file is None:
            return figure

        remark = write_figure(figure, Path(file), plot.title, dpi)
        if remark:
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

    @property
    def _score_columns(self) -> list[str]:
        return ["cell", *self._axis_columns, *self._prompt_column, *SCORE_COLUMNS]

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
