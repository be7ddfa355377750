"""Results of a study for use in Python and notebooks: `load_study`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from sentbed_report.figures.figure_files import write_figure
from sentbed_report.figures.plot import WIDTH
from sentbed_report.figures.study_figures import figure_named, study_figures
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.item_differences import item_differences
from sentbed_report.study.measurements import study_frame
from sentbed_report.study.read_study_directory import read_data
from sentbed_report.study.selection import Selection, select
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure
    from sentbed_report.figures.plot import Plot


def load_study(directory: str | Path) -> LoadedStudy:
    """Return the results so far of the study in a directory, which may still be running.

    Raises:
        RunError: if there is no study in the directory, or a file of it cannot be read.
    """
    return LoadedStudy(read_data(directory))


@attrs.define(
    slots=False,
    eq=False,
    repr=False,
)
class LoadedStudy:
    """Results of a study at the time when it was loaded. A notebook shows its tables."""

    data: StudyData
    """Content of the study's directory: cells, runs with their directories and records, excluded cells."""

    @cached_property
    def tables(self) -> tuple[Summary, ...]:
        """Tables of the report: means, standard deviations, ranks and tests. `print` shows a table as text."""
        return summarise(self.data)

    @cached_property
    def chosen(self) -> Selection | None:
        """The cell with the best deciding score, its scores on test data, and the number of cells tried.

        None if the recipe has no `[study.decide]`.
        """
        return select(self.data, self.tables)

    @cached_property
    def scores(self) -> pandas.DataFrame:
        """All scores of all finished runs, one per row; see `study_frame` for the columns.

        The column of an axis is named after the axis, or `axis NAME` if that is the name of another column. It is
        an ordered category, in the order of the recipe. Costs have `cost` in the column `axis`.
        """
        return study_frame(self.data)

    def items(
        self,
        first: str,
        second: str,
        task: str,
    ) -> pandas.DataFrame:
        """Return how much each item contributes to the difference of two cells in a task, largest first.

        Columns: `item` (index in the data), `gold`, `first` and `second` (predictions of the two cells, averaged
        over their seeds), `share` (contribution to the score of the second cell minus the score of the first; the
        sum over all items is the difference), `group`.

        Raises:
            RunError: if there is no such cell, or if a cell has no items in the task.
        """
        return item_differences(self.tables, first, second, task)

    @cached_property
    def figures(self) -> Mapping[str, str]:
        """Name of each figure that `plot` can draw -> title of the figure, in the order of the report."""
        return {name: plot.title for name, plot in self._plots("").items()}

    def plot(
        self,
        name: str,
        file: str | Path | None = None,
        *,
        task: str = "",
        width: float = WIDTH,
    ) -> Figure:
        """Draw a figure of the report.

        Args:
            name: Name of the figure, such as `cost`; see `figures`.
            file: File to write, as PDF, SVG or PNG; by default none is written.
            task: Task whose scores a figure of a table shows; by default the average of tasks, if there is one.
            width: Width in inches; the height is in the same proportion to it as in the report.

        Raises:
            RunError: if there is no such figure or task, or if the file cannot be written.
        """
        plot = figure_named(self._plots(task), name)
        figure = plot.figure(width)
        if file is not None:
            write_figure(figure, Path(file), plot.title)
        return figure

    def _plots(self, task: str) -> dict[str, Plot]:
        return study_figures(self.data, self.tables, task)

    def __repr__(self) -> str:
        return repr(self.data)

    def _repr_html_(self) -> str:
        tables = "".join(table._repr_html_() for table in self.tables)
        return f"<p>{escape(repr(self.data)[1:-1])}</p>{tables}"
