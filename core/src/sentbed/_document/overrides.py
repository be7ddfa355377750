"""Values that are set at paths of a document: `PATH=VALUE` from the command line, and the axes of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from sentbed._toml import Document, Node, element_key, node_of
from sentbed.errors import Problem, RecipeError, suggest

COMMAND_LINE = "--set"
"""What messages give as the file of an overridden value."""

REMOVED = None
"""Value that removes a key or an array element. TOML has no such value."""


def apply_overrides(document: Document, overrides: Sequence[str]) -> Document:
    """Return the document with `PATH=VALUE` overrides applied; `PATH=` removes a key or an array element.

    Raises:
        RecipeError: if an override is not `PATH=VALUE`, or its path does not exist. The error lists all of them.
    """
    problems = []
    values: dict[str, Node] = {}
    for override in overrides:
        path, equals, text = override.partition("=")
        path = path.strip()
        if not equals or not path:
            message = f"found the override {override!r}, expected `PATH=VALUE`"
            problems.append(Problem(message))
            continue
        # The order matters: an override may set a key below the path of an earlier override.
        values.pop(path, None)
        values[path] = node_of(_value(text), COMMAND_LINE)

    document, more = set_values(document, values)
    problems += more
    if problems:
        raise RecipeError(problems)
    return attrs.evolve(document, overrides=(*document.overrides, *overrides))


def _value(text: str) -> Any:
    """Return the value that a text is in TOML, the text itself if it is none, and `REMOVED` for an empty text."""
    import tomli

    if not text:
        return REMOVED
    try:
        # Within brackets, a comment or a second line is no TOML: nothing of the text is left out.
        values = tomli.loads(f"values = [{text}]")["values"]
    except tomli.TOMLDecodeError:
        return text
    return values[0] if len(values) == 1 else text


def set_values(
    document: Document, values: Mapping[str, Node]
) -> tuple[Document, list[Problem]]:
    """Return the document with each dotted path set to its value, and a problem for each impossible path.

    An array element is removed if it is set to `false`, such as by `"stage.nli" = false` in an axis of a study.
    """
    root = document.root
    problems = []
    for path, node in values.items():
        try:
            root = _with_value(root, path.split("."), node)
        except LookupError as error:
            message = f"the path `{path}` leads nowhere: {error.args[0]}"
            problems.append(Problem(message, path, node.file, node.line))
    return attrs.evolve(document, root=root), problems


def _with_value(parent: Node, keys: Sequence[str], node: Node) -> Node:
    """Return `parent` with the value at a path below it replaced. Tables that do not exist are created.

    Raises:
        LookupError: if the path leads nowhere.
    """
    key, *further_keys = keys
    value = parent.value
    if isinstance(value, list):
        elements = list(value)
        index = _index(elements, key)
        if further_keys:
            elements[index] = _with_value(elements[index], further_keys, node)
        elif node.value is REMOVED or node.value is False:
            del elements[index]
        else:
            elements[index] = node
        return attrs.evolve(parent, value=elements)

    if not isinstance(value, dict):
        message = f"`{key}` would be inside {parent.data!r}, which is not a table"
        raise LookupError(message)  # noqa: TRY004 - the path is wrong, not the type of a value
    table = dict(value)
    if node.value is REMOVED and key not in table:
        message = f"there is no key `{key}` to take out.{suggest(key, list(table))}"
        raise LookupError(message)
    if further_keys:
        inner = table.get(key, attrs.evolve(node, value={}))
        table[key] = _with_value(inner, further_keys, node)
    elif node.value is REMOVED:
        del table[key]
    else:
        table[key] = node
    return attrs.evolve(parent, value=table)


def _index(elements: list[Node], key: str) -> int:
    """Return the index of an array element; `key` is its number or its `name`."""
    index = element_key(elements, key)
    if isinstance(index, int) and index < len(elements):
        return index
    names = []
    for element in elements:
        name = element.below("name")
        if name is not None:
            names.append(str(name.value))
    advice = suggest(key, names) or f" It has {len(elements)} elements."
    raise LookupError(f"there is no element `{key}`.{advice}")
