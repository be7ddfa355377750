"""Runs and studies with their scores on clean items only, and tables of these scores."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
from sentbed.protocols import Recipe, Score
from sentbed.tools import RESOLVED, Plugins, read_document, structure_recipe
from sentbed_report.run_comparison import difference_table
from sentbed_report.study.exports import named_tables
from sentbed_report.study.study_data import CellRun, StudyData, with_runs
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.table import Table

from sentbed_audit.clean.clean_section import clean_scores, scores_table
from sentbed_audit.clean.overlap import Overlap


def recipes_of(data: StudyData, plugins: Plugins) -> list[Recipe]:
    """Return the recipe of each cell that has a finished run, from the run's directory. No component is built.

    Raises:
        RecipeError: if a recipe has problems.
    """
    base = data.directory or Path()
    recipes = []
    for cell in data.cells:
        for run in cell.runs:
            if run.status == "finished" and run.directory is not None:
                # `..` is resolved in the text of the path, since `base`, the report's directory, need not exist.
                directory = Path(os.path.normpath(base / run.directory))
                document = read_document(directory / RESOLVED)
                recipe = structure_recipe(document, plugins, directory.resolve())
                recipes.append(recipe)
                break
    return recipes


def on_clean_items(data: StudyData, overlap: Overlap) -> StudyData:
    """Return a study with its scores on clean items. A score whose items have unknown texts is left out.

    Costs of runs and published numbers are left out, too, since they are over all items.

    Raises:
        RunError: if a score cannot be computed from its items.
    """

    def run_on_clean_items(run: CellRun) -> CellRun:
        counted, _ = clean_scores(overlap, run.scores)
        scores = tuple(row.clean for row in counted if row.clean is not None)
        return attrs.evolve(run, scores=scores, cost=None)

    return attrs.evolve(
        data,
        name=f"{data.name}, clean items",
        cells=with_runs(data.cells, run_on_clean_items),
        expected={},
        references={},
    )


def scores_of_runs(data: StudyData, overlap: Overlap) -> tuple[Table, list[Score]]:
    """Return a table of the scores of runs, on all and on clean items, and the scores whose items are unknown.

    Raises:
        RunError: if a score cannot be computed from its items.
    """
    rows, others = [], []
    for cell in data.cells:
        for run in cell.runs:
            counted, not_counted = clean_scores(overlap, run.scores)
            rows += [(str(run), score) for score in counted]
            others += not_counted
    return scores_table(rows), others


def comparison_tables(summaries: Sequence[Summary]) -> Iterator[Table]:
    """Yield each table, followed by its table of differences between cells if it has any."""
    for summary, table in zip(summaries, named_tables(summaries), strict=True):
        yield table
        differences = difference_table(summary)
        if differences.rows:
            yield differences
