"""Conflicts between overrides (`--set`) and the axes and prompts of a study, which set values of each cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sentbed.errors import Problem
from sentbed.tools import Document

from sentbed_studies.axes import Axis, names_of_path


def refused_overrides(document: Document, axes: Sequence[Axis]) -> Iterator[Problem]:
    """Yield a problem for each override of a value, or in a table, that an axis sets; prompts are an axis, too.

    An override that removes the value is none: the axis sets it anew.
    """
    for override in document.overrides:
        path, _, value = override.partition("=")
        path = path.strip()
        names = ".".join(names_of_path(document, path))
        for axis in axes:
            for path_of_axis in axis.paths(document):
                is_removed = not value and names == path_of_axis
                if f"{names}.".startswith(f"{path_of_axis}.") and not is_removed:
                    message = (
                        f"found the override `{path}`, but the axis `{axis.name}` sets `{path_of_axis}`; set the "
                        "value there (`--set study...`)"
                    )
                    yield Problem(message, path)
