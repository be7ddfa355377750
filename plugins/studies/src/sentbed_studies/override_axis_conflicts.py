"""Conflicts between overrides (`--set`) and the axes and prompts of a study, which set values of each cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sentbed.errors import Problem
from sentbed.tools import Document

from sentbed_studies.axes import Axis, names_of_path
from sentbed_studies.study_prompts import StudyPrompt


def refused_overrides(
    document: Document,
    axes: Sequence[Axis],
    prompts: Sequence[StudyPrompt],
) -> Iterator[Problem]:
    """Yield a problem for each override of a value, or in a table, that an axis or a prompt sets.

    An override that removes the value is none: the axis sets it anew.
    """
    setters = {}
    for axis in axes:
        for path in axis.paths(document):
            setters[path] = f"the axis `{axis.name}`"
    for prompt in prompts:
        for path in prompt.settings:
            names = names_of_path(document, path)
            setters[".".join(names)] = f"the prompt `{prompt.label}`"

    for override in document.overrides:
        path, _, value = override.partition("=")
        path = path.strip()
        names = names_of_path(document, path)
        for path_of_setter, setter in setters.items():
            names_of_setter = tuple(path_of_setter.split("."))
            is_removed = not value and names == names_of_setter
            if names[: len(names_of_setter)] == names_of_setter and not is_removed:
                message = (
                    f"found the override `{path}`, but {setter} sets `{path_of_setter}`; set the value there "
                    "(`--set study...`)"
                )
                yield Problem(message, path)
                break
