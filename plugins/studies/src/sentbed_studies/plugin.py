"""Hooks of sentbed-studies: `[study]`, `[search]` and their commands."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl
from sentbed.protocols import LazyCommand, RecipeTable

sentbed_api = "2.0"


@hookimpl
def commands() -> Mapping[str, LazyCommand]:
    """Return `study`, `search` and `reproduce`."""
    return {
        "study": LazyCommand(
            "sentbed_studies.commands:study", "Run the cells of a recipe with `[study]`, and tabulate them."
        ),
        "search": LazyCommand(
            "sentbed_studies.search_command:search", "Find the best demonstration for a recipe's prompt."
        ),
        "reproduce": LazyCommand(
            "sentbed_studies.reproduce_command:reproduce", "Run the recipe of a published table, and compare."
        ),
    }


@hookimpl
def recipe_tables() -> Mapping[str, type[RecipeTable]]:
    """Return `[study]` and `[search]`."""
    from sentbed_studies.search_table import Search
    from sentbed_studies.study_table import StudyTable

    return {"study": StudyTable, "search": Search}
