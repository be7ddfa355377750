"""Results of a study for Python and notebooks."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from sentbed.errors import RuntimeUnavailableError
from sentbed.protocols import Score
from sentbed_report.figures.figure_files import DPI, WIDTH, write_figure
from sentbed_report.figures.study_figures import figure_named, study_figures
from sentbed_report.formatting import count
from sentbed_report.run_cost import cost_scores
from sentbed_report.study.axis_columns import axis_column
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.decisions import Decisions
from sentbed_report.study.read_study_directory import read_data
from sentbed_report.study.selection import Selection, select
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData
from sentbed_report.study.summary_tables import Summary

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure
    from sentbed_report.figures.colours import Theme
    from sentbed_report.figures.plot import Plot

    from sentbed_studies.power_table import PowerTable

_OF_SCORES = ("protocol", "task", "metric", "value", "direction", "degenerate")

COLUMNS = ("cell", "seed", "encoder", "evaluator", *_OF_SCORES)
"""Columns of `LoadedStudy.scores` beside the axes."""

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


def _costs(run: CellRun) -> Iterator[Score]:
    """Yield what was measured of each encoder, then for each what the run took as a whole."""
    yield from (one for one in run.scores if one.axis == "cost")
    for encoder in dict.fromkeys(score.encoder for score in run.scores):
        yield from cost_scores(run.cost, encoder)


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
    def scores(self) -> pandas.DataFrame:
        """Every score of every finished run, one per row, also those before training (`NAME@start`).

        Columns: `cell`, a column per axis with its labels (`axis NAME` if a table of a study has a column of
        that name), `seed`, `encoder`, `evaluator`, `protocol`, `task`, `metric`, `value`, `direction`,
        `degenerate`. Axes are ordered categories, in the order of the recipe.

        Raises:
            RuntimeUnavailableError: if pandas is not installed.
        """
        rows = [
            self._scored(cell, run, score)
            for cell in self.data.cells
            for run in cell.runs
            for score in run.scores
        ]
        return self._frame(rows, list(_OF_SCORES))

    @cached_property
    def costs(self) -> pandas.DataFrame:
        """What each finished run costs, one encoder per row, with a column for each cost.

        Columns: `cell`, a column per axis, `seed`, `encoder` and `evaluator` as in `scores`, and a column for
        each task of a score that is a cost (`axis` is `cost`), such as `passes`; `cost NAME` if an axis or a
        column of `scores` has its name. A cost that was measured twice in a run, as on other texts, begins
        another row, and so does what the run took as a whole, with shared stages: `run-seconds` and so on, of
        the evaluator `run-cost`.

        Raises:
            RuntimeUnavailableError: if pandas is not installed.
        """
        rows: list[dict[str, Any]] = []
        columns: dict[str, None] = {}
        last = None
        for cell in self.data.cells:
            for run in cell.runs:
                for score in _costs(run):
                    place = self._place(cell, run, score)
                    column = self._cost_column(score.task)
                    if place != last or column in rows[-1]:
                        rows.append(dict(place))
                    last = place
                    rows[-1][column] = score.value
                    columns[column] = None
        return self._frame(rows, list(columns))

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

        Raises:
            RuntimeUnavailableError: if pandas is not installed.
        """
        named, labels = self._named(), {cell.name: cell.labels for cell in self.data.cells}
        rows = []
        for table in self.tables:
            found = table.groups
            tasks = found.tasks.rows if found is not None and found.tasks is not None else ()
            ranks = {(one.cell, one.encoder): one for one in tasks}
            for row in found.rows if found is not None else ():
                over = ranks.get((row.cell, row.encoder))
                rows.append(
                    {
                        # Before the labels: an axis may be called `name`, which is no column.
                        **attrs.asdict(row),
                        **{named[axis]: label for axis, label in labels[row.cell].items()},
                        **table.ranked_by,
                        "letters": row.letters,
                        "mean_rank": None if over is None else over.mean_rank,
                        "task_letters": None if over is None else over.letters,
                    }
                )
        return self._frame(rows, GROUPS, named).drop(columns="seed")

    @cached_property
    def tidy(self) -> pandas.DataFrame:
        """Scores and costs side by side: `scores` without the costs, with a column for each of these.

        The costs of a row are those of its encoder and, as `run-seconds` and so on, those of its run as a
        whole; what was not measured is missing. A cost's column is named as in `costs`; what was measured
        twice in a run, as on other texts, has a second one, such as `passes 2`.

        Raises:
            RuntimeUnavailableError: if pandas is not installed.
        """
        rows: list[dict[str, Any]] = []
        columns: dict[str, None] = {}
        for cell in self.data.cells:
            for run in cell.runs:
                costs: dict[str, dict[str, float]] = {}
                times: Counter[tuple[str, str]] = Counter()
                for score in _costs(run):
                    times[score.encoder, score.task] += 1
                    number = times[score.encoder, score.task]
                    name = self._cost_column(score.task)
                    column = name if number == 1 else f"{name} {number}"
                    costs.setdefault(score.encoder, {})[column] = score.value
                rows += (
                    {**self._scored(cell, run, score), **costs.get(score.encoder, {})}
                    for score in run.scores
                    if score.axis != "cost"
                )
                columns.update(dict.fromkeys(column for own in costs.values() for column in own))
        return self._frame(rows, [*_OF_SCORES, *columns])

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
        found = figure_named(self._plots(task), name, task, self.tables)
        figure = found.figure(width, height, theme)
        if file is not None and (remark := write_figure(figure, Path(file), found.title, dpi)):
            warnings.warn(remark, stacklevel=2)
        return figure

    def _plots(self, task: str) -> dict[str, Plot]:
        return study_figures(self.data, self.tables, task)

    def _named(self) -> dict[str, str]:
        """Return the name of each axis -> the name of its column, as in `scores.csv`."""
        return {name: axis_column(name) for name in self.axes}

    def _cost_column(self, cost: str) -> str:
        """Return the name of a cost's column, beside `COLUMNS` and those of the axes."""
        return f"cost {cost}" if cost in (*COLUMNS, *self._named().values()) else cost

    def _place(self, cell: CellInfo, run: CellRun, score: Score) -> dict[str, Any]:
        """Return the columns that say what was scored."""
        named = self._named()
        return {
            "cell": cell.name,
            **{named[axis]: label for axis, label in cell.labels.items()},
            "seed": run.seed,
            "encoder": score.encoder,
            "evaluator": score.evaluator,
        }

    def _scored(self, cell: CellInfo, run: CellRun, score: Score) -> dict[str, Any]:
        """Return a row of `scores`."""
        return {
            **self._place(cell, run, score),
            "protocol": score.protocol_name,
            "task": score.task,
            "metric": score.metric,
            "value": score.value,
            "direction": score.direction,
            "degenerate": score.degenerate,
        }

    def _frame(
        self, rows: list[dict[str, Any]], columns: list[str], named: Mapping[str, str] | None = None
    ) -> pandas.DataFrame:
        if find_spec("pandas") is None:
            raise RuntimeUnavailableError(
                "a study's `scores`, `costs`, `groups` and `tidy` need the package `pandas`, which is not "
                "installed; run `pip install 'sentbed-studies[pandas]'`"
            )
        import pandas

        named = named or self._named()
        about = ["cell", *named.values(), "seed", "encoder", "evaluator"]
        found = pandas.DataFrame(rows, columns=[*about, *columns])
        for axis, labels in self.axes.items():
            found[named[axis]] = pandas.Categorical(found[named[axis]], categories=labels, ordered=True)
        return found

    def __repr__(self) -> str:
        data = self.data
        axes = " x ".join(f"{len(labels)} {name}" for name, labels in self.axes.items())
        sizes = f"{count(len(data.cells), 'cell')} ({axes}) x {count(len(data.seeds), 'seed')}"
        return f"<study {data.name}: {sizes}, {data.finished:,} of {count(data.total, 'run')} finished>"

    def _repr_html_(self) -> str:
        tables = "".join(table._repr_html_() for table in self.tables)
        return f"<p>{escape(repr(self)[1:-1])}</p>{tables}"
