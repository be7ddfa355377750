"""Documents of the cells of a study: the recipe's document, with the values that axes and prompts set."""

from __future__ import annotations

from sentbed.errors import Problem
from sentbed.tools import Document, KeyPath, node_of, set_values

from sentbed_studies.axes import Combination


def cell_document(
    document: Document, combination: Combination
) -> tuple[Document, list[Problem]]:
    """Return the document of a cell, and a problem for each path of an axis that does not exist in the recipe.

    The position of a value that an axis sets is that of the axis in the recipe's file, for messages.
    """
    values = {}
    for path, value in combination.settings.items():
        place = document.place(_path_of_setting(document, combination, path))
        values[path] = node_of(value, *place)
    return set_values(document.without("study"), values)


def _path_of_setting(
    document: Document, combination: Combination, path: str
) -> KeyPath:
    """Return the path of the label or the prompt that sets a path."""
    if path in combination.prompt_places:
        return combination.prompt_places[path]
    axis = combination.axes[path]
    label: KeyPath = ("study", "axes", axis, combination.labels[axis])
    if document.value(label) is None:
        return ("study", "axes", axis, "values")
    return label
