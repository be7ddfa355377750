"""Recipes of runs and studies, and a table of their scores on clean items."""

from __future__ import annotations

import os
from pathlib import Path

from sentbed.protocols import Recipe, Score
from sentbed.tools import RESOLVED, Plugins, read_document, structure_recipe
from sentbed_report.study.study_data import StudyData
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
