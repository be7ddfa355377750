"""Documents of the cells of a study: the recipe's document, with the values that axes and prompts set."""

from __future__ import annotations

import attrs
from sentbed.errors import Problem, RecipeError
from sentbed.tools import Document, KeyPath, set_values

from sentbed_studies.axes import Combination


def cell_document(
    document: Document, combination: Combination
) -> tuple[Document, list[Problem]]:
    """Return the document of a cell, and a problem for each path of an axis that does not exist in the recipe.

    The position of a value that an axis sets is that of the axis in the recipe's file, for messages.
    """
    places = _places_of_settings(document, combination)
    data = {key: value for key, value in document.data.items() if key != "study"}
    cell = attrs.evolve(document, data=data)
    settings = dict(combination.settings)
    problems = []
    try:
        cell = set_values(cell, settings)
    except RecipeError as error:
        for problem in error.problems:
            del settings[problem.path]
            file, line = places[problem.path]
            problems.append(attrs.evolve(problem, file=file, line=line))
        cell = set_values(cell, settings)

    for path, value in settings.items():
        if value is False and path.rpartition(".")[2].isdigit():
            # `false` has removed this array element: its index now belongs to the next element.
            continue
        keys = cell.key_path(path)
        for end in range(1, len(keys)):
            if document.value(keys[:end]) is None:
                # The axis has created this table, perhaps by a misspelt key: it gets the axis's position, too.
                cell = placed(cell, keys[:end], *places[path])
                break
        cell = placed(cell, keys, *places[path])
    return cell, problems


def _places_of_settings(
    document: Document, combination: Combination
) -> dict[str, tuple[str | None, int | None]]:
    """Return path that an axis or prompt sets -> position (file and line) of the label or prompt that sets it."""
    places = {}
    for path, axis in combination.axes.items():
        key_path: KeyPath = ("study", "axes", axis, combination.labels[axis])
        if key_path not in document.places:
            key_path = ("study", "axes", axis, "values")
        places[path] = document.place(key_path)

    for path, key_path in combination.prompt_places.items():
        places[path] = document.place(key_path)
    return places


def placed(
    document: Document,
    path: KeyPath,
    file: str | None,
    line: int | None,
) -> Document:
    """Return the document in which `path` and all keys below it have the position `file`, `line`."""
    places = {}
    for keys, place in document.places.items():
        if keys[: len(path)] != path:
            places[keys] = place
    if line is not None:
        places[path] = file, line
    return attrs.evolve(document, places=places)
