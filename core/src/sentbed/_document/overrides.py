"""`PATH=VALUE` overrides from the command line, applied to a document before it is structured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from sentbed._document.toml import Document, KeyPath, parse
from sentbed.errors import Problem, RecipeError, listed, suggest

TAKEN_OUT = object()
"""Marker in place of a value: the key is removed."""
COMMAND_LINE = "--set"
"""Position of an overridden value in messages."""
EVERYWHERE = "evaluate.*."
"""Prefix of a path that stands for a key in all evaluations that have it; `structure_recipe` applies it."""


def apply_overrides(document: Document, overrides: Sequence[str]) -> Document:
    """Return the document with `PATH=VALUE` overrides applied. Raises `RecipeError` with all problems."""
    problems = []
    values: dict[str, Any] = {}
    for override in overrides:
        path, equals, text = override.partition("=")
        if not equals or not path.strip():
            problems.append(
                Problem(f"found the override {override!r}, expected `PATH=VALUE`")
            )
            continue
        value = _toml_value(f"v = {text}")
        # In an array nothing may follow a value but the bracket: no comment, no second line.
        if value is not None and _toml_value(f"v = [{text}]") is None:
            message = "what follows `#` or the end of the line would be lost; put the value into quotes"
            problems.append(Problem(f"found the override {override!r}; {message}"))
        value = text if value is None else value
        # Moved to the end: a later override may set a key below an earlier one.
        values.pop(path.strip(), None)
        values[path.strip()] = value if text else TAKEN_OUT
    direct_values = {}
    for path, value in values.items():
        if not path.startswith(EVERYWHERE):
            direct_values[path] = value
    try:
        document = attrs.evolve(document, plain=document.plain or document)
        document = set_values(document, direct_values, "the override")
        for path, value in direct_values.items():
            keys = document.key_path(path)
            # If an earlier element was removed, the index in the path now means another one: compare values.
            current = document.value(keys)
            # `is` for NaN, which is equal to nothing.
            if current is value or (value is not TAKEN_OUT and current == value):
                document = document.set_from(keys, COMMAND_LINE)
    except RecipeError as error:
        problems += error.problems
    if problems:
        raise RecipeError(problems)
    return attrs.evolve(document, overrides=(*document.overrides, *overrides))


def _toml_value(text: str) -> Any:
    """Return the value of the key `v`, or None if `text` is not TOML."""
    try:
        return parse(text.encode(errors="replace")).data["v"]
    except RecipeError:
        return None


def set_values(document: Document, values: Mapping[str, Any], what: str) -> Document:
    """Return the document with each dotted path set to its value; messages call the paths `what`.

    An array element that is set to `false` is removed, such as by `"stage.nli" = false` in an axis.

    Raises:
        RecipeError: if a path does not exist.
    """
    import copy

    data: Any = copy.deepcopy(dict(document.data))
    problems = []
    removed: list[KeyPath] = []
    for path, value in values.items():
        keys = path.split(".")
        try:
            place = data
            for key in keys[:-1]:
                place = _step_into(place, key, value is not TAKEN_OUT)
            if isinstance(place, list) and (value is TAKEN_OUT or value is False):
                # Removed last: other paths count the elements in the file.
                _index(place, keys[-1])
                removed.append(attrs.evolve(document, data=data).key_path(path))
            elif isinstance(place, list):
                place[_index(place, keys[-1])] = copy.deepcopy(value)
            elif value is not TAKEN_OUT:
                _table_at(place, keys[-1])[keys[-1]] = copy.deepcopy(value)
            else:
                _step_into(place, keys[-1], new=False)
                del place[keys[-1]]
        except (KeyError, IndexError, TypeError) as error:
            problems.append(
                Problem(f"{what} `{path}` leads nowhere: {error.args[0]}", path)
            )
    if problems:
        raise RecipeError(problems)
    document = attrs.evolve(document, data=data)
    for element in sorted(set(removed), key=str, reverse=True):
        del document.value(element[:-1])[element[-1]]
        document = document.without(element)
    return document


def _step_into(place: Any, key: str, new: bool) -> Any:
    if isinstance(place, list):
        return place[_index(place, key)]
    table = _table_at(place, key)
    if key not in table and not new:
        raise KeyError(
            f"there is no key `{key}` to take out.{suggest(key, list(table))}"
        )
    return table.setdefault(key, {})


def _table_at(place: Any, key: str) -> dict[str, Any]:
    if not isinstance(place, dict):
        raise TypeError(f"`{key}` would be inside {place!r}, which is not a table")
    return place


def _index(place: list[Any], key: str) -> int:
    """Return the index of a list element, given by number or by `name`."""
    if key.isascii() and key.isdigit() and int(key) < len(place):
        return int(key)
    names = []
    for index, item in enumerate(place):
        name = item.get("name") if isinstance(item, dict) else None
        if name == key:
            return index
        if isinstance(name, str):
            names.append(name)
    if names:
        raise IndexError(
            f"there is no element `{key}`, the names are {listed(names)}; name one of them"
        )
    numbers = f"0 to {len(place) - 1}" if place else "none: the array is empty"
    raise IndexError(
        f"there is no element `{key}`, the elements are numbered {numbers}"
    )
