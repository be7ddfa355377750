"""Hooks of sentbed-studies: `[study]`, and its commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sentbed import hookimpl

if TYPE_CHECKING:
    from sentbed_common import KnownData


@hookimpl
def commands() -> Mapping[str, str]:
    """Return the commands `study` and `reproduce`."""
    return {
        "study": "sentbed_studies.study_command:study",
        "reproduce": "sentbed_studies.reproduce_command:reproduce",
    }


@hookimpl
def recipe_tables() -> Mapping[str, str]:
    """Return the recipe table `[study]`."""
    return {
        "study": "sentbed_studies.study_cells:StudyCells",
    }


@hookimpl
def known_data() -> tuple[KnownData, ...]:
    """Return the files of demonstrations that recipes name but that sentbed does not come with."""
    from sentbed_studies.known_demonstrations import PUBLISHED

    return (PUBLISHED,)
