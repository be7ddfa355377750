"""`[study]` as core sees it: a table that expands a recipe to variants, the recipes of its cells."""

from __future__ import annotations

from pathlib import Path

import attrs
from sentbed.protocols import Variants
from sentbed.tools import Document, Plugins

from sentbed_studies.axes import labels_that_are_equal
from sentbed_studies.study import expand, find_cell, require_cells_of_labels
from sentbed_studies.study_config import StudyTable


@attrs.frozen
class StudyCells(StudyTable):
    """`[study]`: axes over any values of the recipe; every combination of their labels is a cell."""

    @classmethod
    def variants(
        cls,
        document: Document,
        plugins: Plugins,
        base: Path,
    ) -> Variants:
        """Return the recipes of all cells, after checking them; see `study.expand`."""
        study = expand(document, plugins, base)
        require_cells_of_labels(study)
        recipes = tuple(run.recipe for run in study.runs)
        remarks = tuple(labels_that_are_equal(study.axes))
        return Variants("cells", study.names, study.reasons, recipes, remarks)

    @classmethod
    def variant(
        cls,
        document: Document,
        plugins: Plugins,
        base: Path,
        name: str,
    ) -> Document:
        """Return the document of the cell `name`; see `study.find_cell`."""
        return find_cell(document, plugins, base, name)
