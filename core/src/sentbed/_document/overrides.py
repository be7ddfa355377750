"""`PATH=VALUE` overrides from the command line, applied to a document before it is structured."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from sentbed._document.toml import Document, KeyPath, element_key, parse
from sentbed.errors import Problem, RecipeError, listed, suggest

TAKEN_OUT = object()
"""Value that stands for the removal of a key."""

COMMAND_LINE = "--set"
"""What messages give as the file of an overridden value."""


def apply_overrides(document: Document, overrides: Sequence[str]) -> Document:
    """Return the document with `PATH=VALUE` overrides applied.

    Raises:
        RecipeError: if an override is not `PATH=VALUE`, or its path does not exist. The error lists all of them.
    """
    problems = []
    well_formed = []
    for override in overrides:
        path, equals, text = override.partition("=")
        if not equals or not path.strip():
            problems.append(
                Problem(f"found the override {override!r}, expected `PATH=VALUE`")
            )
            continue
        well_formed.append(override)
        # The text is more than one value if it is not TOML between brackets: a comment or a second line follows.
        if _toml_value(text) is not None and _toml_value(f"[{text}]") is None:
            message = "what follows `#` or the end of the line would be lost; put the value into quotes"
            problems.append(Problem(f"found the override {override!r}; {message}"))

    try:
        values = _overridden_values(well_formed)
        document = _with_values(document, values, "the override", COMMAND_LINE)
    except RecipeError as error:
        problems += error.problems
    if problems:
        raise RecipeError(problems)
    return attrs.evolve(document, overrides=(*document.overrides, *overrides))


def _overridden_values(overrides: Sequence[str]) -> dict[str, Any]:
    """Return path -> value of `PATH=VALUE` overrides, in the order in which the paths are last set.

    The value is `TAKEN_OUT` for `PATH=`, and a string if the text is not TOML.
    """
    values: dict[str, Any] = {}
    for override in overrides:
        path, _, text = override.partition("=")
        value = _toml_value(text)
        if not text:
            value = TAKEN_OUT
        elif value is None:
            value = text
        # The order matters: an override may set a key below the path of an earlier override.
        values.pop(path.strip(), None)
        values[path.strip()] = value
    return values


def _toml_value(text: str) -> Any:
    """Return the value that a text is in TOML, or None if it is none."""
    try:
        return parse(f"v = {text}".encode(errors="replace")).data["v"]
    except RecipeError:
        return None


def set_values(
    document: Document,
    values: Mapping[str, Any],
) -> Document:
    """Return the document with each dotted path set to its value.

    An array element that is set to `false` is removed, such as by `"stage.nli" = false` in an axis of a study.

    Args:
        document: The document, which does not change.
        values: The value for each dotted path; `TAKEN_OUT` removes the key.

    Raises:
        RecipeError: if a path does not exist. The error lists all such paths.
    """
    return _with_values(document, values, "the axes' path", None)


def _with_values(
    document: Document,
    values: Mapping[str, Any],
    what: str,
    origin: str | None,
) -> Document:
    """Return the result of `set_values`, with `origin`, unless it is None, as the file of each value.

    `what` is what messages call a path, such as `the override`.
    """

    data: Any = copy.deepcopy(dict(document.data))
    problems = []
    removed: list[KeyPath] = []
    changed: list[KeyPath] = []
    for path, value in values.items():
        *parents, last = path.split(".")
        try:
            container = data
            for key in parents:
                container = _step_into(container, key, value is not TAKEN_OUT)

            key_path = attrs.evolve(document, data=data).key_path(path)
            # An array or table that replaces an element, or what holds it, takes back the element's removal.
            removed = [
                element for element in removed if element[: len(key_path)] != key_path
            ]
            if isinstance(container, list):
                index = _index(container, last)
                if value is TAKEN_OUT or value is False:
                    # Removed at the end, since other paths use the indices of the elements in the file.
                    removed.append(key_path)
                else:
                    container[index] = copy.deepcopy(value)
                    changed.append(key_path)
            elif value is TAKEN_OUT:
                _step_into(container, last, create=False)
                del container[last]
                changed.append(key_path)
            else:
                _require_table(container, last)
                container[last] = copy.deepcopy(value)
                changed.append(key_path)

        except (KeyError, IndexError, TypeError) as error:
            problems.append(
                Problem(f"{what} `{path}` leads nowhere: {error.args[0]}", path)
            )
    if problems:
        raise RecipeError(problems)

    document = attrs.evolve(document, data=data)
    if origin is not None:
        # Before elements are removed, which changes the indices in paths.
        for key_path in changed:
            document = document.set_from(key_path, origin)
    # The deepest first, and of one array the last first, so that the other paths stay right.
    for element in sorted(removed, key=_depth_and_index, reverse=True):
        del document.value(element[:-1])[element[-1]]
        document = document.without(element)
    return document


def _depth_and_index(element: KeyPath) -> tuple[int, int]:
    """Return the depth of an element's path, and its index in its array."""
    index = element[-1]
    assert isinstance(index, int), "elements of arrays have indices"
    return len(element), index


def _step_into(
    container: Any,
    key: str,
    create: bool,
) -> Any:
    """Return the value of a key in a table, or an element of an array.

    With `create`, a missing key of a table gets an empty table as its value.
    """
    if isinstance(container, list):
        return container[_index(container, key)]
    _require_table(container, key)
    if key not in container and not create:
        raise KeyError(
            f"there is no key `{key}` to take out.{suggest(key, list(container))}"
        )
    return container.setdefault(key, {})


def _require_table(container: Any, key: str) -> None:
    if not isinstance(container, dict):
        raise TypeError(f"`{key}` would be inside {container!r}, which is not a table")


def _index(array: list[Any], key: str) -> int:
    """Return the index of an array element; `key` is its number or its `name`."""
    index = element_key(array, key)
    if isinstance(index, int) and index < len(array):
        return index
    names = []
    for item in array:
        name = item.get("name") if isinstance(item, dict) else None
        if isinstance(name, str):
            names.append(name)
    if names:
        raise IndexError(
            f"there is no element `{key}`, the names are {listed(names)}; name one of them"
        )
    if not array:
        raise IndexError(f"there is no element `{key}`, the array is empty")
    raise IndexError(
        f"there is no element `{key}`, the elements are numbered 0 to {len(array) - 1}"
    )
