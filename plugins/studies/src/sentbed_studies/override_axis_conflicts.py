"""Conflicts between overrides (`--set`) and axes that set the same value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sentbed.errors import Problem
from sentbed.tools import Document

from sentbed_studies.axes import Axis, names_of_path


def refused_overrides(document: Document, axes: Sequence[Axis]) -> Iterator[Problem]:
    """Yield a problem for each override of a value that an axis sets, alone or in a table that it sets.

    An override that removes the value is none: the axis sets it anew.
    """
    for override in document.overrides:
        path, _, value = override.partition("=")
        names = names_of_path(document, path.strip())
        if names[0] == "study":
            continue
        for axis in axes:
            for path_of_axis in axis.paths(document):
                names_of_axis = tuple(path_of_axis.split("."))
                is_removed = not value and names == names_of_axis
                if names[: len(names_of_axis)] == names_of_axis and not is_removed:
                    message = (
                        f"found the override `{path.strip()}`, but the axis `{axis.name}` sets "
                        f"`{path_of_axis}`; set the value in the axis (`--set study.axes.{axis.name}...`)"
                    )
                    yield Problem(message, path.strip())
                    break
