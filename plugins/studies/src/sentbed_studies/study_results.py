"""Results of a study for Python and notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from sentbed.errors import RuntimeUnavailableError
from sentbed_report.formatting import count
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.read_study_directory import read_data
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary

if TYPE_CHECKING:
    import pandas


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

    @cached_property
    def tables(self) -> tuple[Summary, ...]:
        """Tables of the report: mean, standard deviation, places and tests; `print` shows one as text."""
        return summarise(self.data)

    @cached_property
    def scores(self) -> pandas.DataFrame:
        """Every score of every finished run, one per row, also those before training (`NAME@start`).

        Columns: `cell`, a column per axis with its labels (`axis NAME` if another column has that name),
        `seed`, `encoder`, `evaluator`, `protocol`, `task`, `metric`, `value`, `direction`, `degenerate`.
        Axes are ordered categories, in the order of the recipe.

        Raises:
            RuntimeUnavailableError: if pandas is not installed.
        """
        if find_spec("pandas") is None:
            raise RuntimeUnavailableError(
                "a study's `scores` need the package `pandas`, which is not installed; "
                "run `pip install 'sentbed-studies[pandas]'`"
            )
        import pandas

        columns = ["cell", "seed", "encoder", "evaluator", "protocol", "task", "metric"]
        columns += ["value", "direction", "degenerate"]
        named = {name: f"axis {name}" if name in columns else name for name in self.axes}
        rows: list[dict[str, Any]] = [
            {
                "cell": cell.name,
                **{named[axis]: label for axis, label in cell.labels.items()},
                "seed": run.seed,
                "encoder": score.encoder,
                "evaluator": score.evaluator,
                "protocol": score.protocol_name,
                "task": score.task,
                "metric": score.metric,
                "value": score.value,
                "direction": score.direction,
                "degenerate": score.degenerate,
            }
            for cell in self.data.cells
            for run in cell.runs
            for score in run.scores
        ]
        found = pandas.DataFrame(rows, columns=["cell", *named.values(), *columns[1:]])
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
