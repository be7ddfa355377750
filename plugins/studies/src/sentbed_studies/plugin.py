"""Hooks of sentbed-studies: `[study]`, and its commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sentbed import hookimpl
from sentbed.protocols import Lazy

if TYPE_CHECKING:
    from sentbed_common import KnownData


@hookimpl
def commands() -> Mapping[str, Lazy]:
    """Return the commands `study` and `reproduce`."""
    return {
        "study": Lazy(
            "sentbed_studies.study_command:study",
            "Run the cells of a recipe with `[study]`, and tabulate them.",
        ),
        "reproduce": Lazy(
            "sentbed_studies.reproduce_command:reproduce",
            "Run the recipe of a published table, and compare.",
        ),
    }


@hookimpl
def recipe_tables() -> Mapping[str, Lazy]:
    """Return the recipe table `[study]`."""
    return {
        "study": Lazy(
            "sentbed_studies.study_cells:StudyCells",
            "`[study]`: axes over any values of the recipe; every combination of their labels is a cell.",
        ),
    }


@hookimpl
def known_data() -> tuple[KnownData, ...]:
    """Return the files of demonstrations that recipes name but that sentbed does not come with."""
    from sentbed_studies.known_demonstrations import PUBLISHED

    return (PUBLISHED,)
