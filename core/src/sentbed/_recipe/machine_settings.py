"""Settings of the machine, such as addresses and devices: they come from the caller, never from a directory.

A run directory may be a stranger's. The settings of the machine in its recipe are left out when it is read;
the caller gives them (`--set`), or the defaults hold.
"""

from __future__ import annotations

import copy
import json
import shlex
import types
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs

from sentbed._document.toml import Document, KeyPath, dotted
from sentbed._recipe.recipe import EncoderRecipe, Recipe, written_path
from sentbed.errors import printable
from sentbed.protocols import Component, Executor, Runtime, Tracker

KINDS_OF_MACHINE = (Runtime, Tracker, Executor)
"""Kinds of components whose free texts belong to the machine unless a field says otherwise."""

NO_FREE_TEXT = (bool, int, float, types.NoneType)

LONGEST_SHOWN = 80
"""Characters of the longest value that a message shows."""


def machine_settings(part: Any) -> Iterator[tuple[KeyPath, Any, bool]]:
    """Yield the path, the value and whether it is the default of each setting of the machine in a recipe.

    They are the fields whose metadata is `protocols.OF_MACHINE`. Of a runtime, a tracker and an executor they
    are also the fields that can hold any text, such as an address or a path, except for those whose
    metadata is `protocols.OF_RUN`. `part` is a recipe or a part of it.
    """
    yield from _settings(part, of_machine_kind=False)


def _settings(part: Any, of_machine_kind: bool) -> Iterator[tuple[KeyPath, Any, bool]]:
    if isinstance(part, Mapping):
        for key, value in part.items():
            for path, setting, is_default in _settings(value, of_machine_kind):
                yield (key, *path), setting, is_default
    elif isinstance(part, tuple):
        for index, value in enumerate(part):
            for path, setting, is_default in _settings(value, of_machine_kind):
                yield (index, *path), setting, is_default
    elif attrs.has(type(part)):
        yield from _settings_of_fields(
            part, of_machine_kind or isinstance(part, KINDS_OF_MACHINE)
        )


def _settings_of_fields(
    part: Any, of_machine_kind: bool
) -> Iterator[tuple[KeyPath, Any, bool]]:
    hints: Mapping[str, Any] | None = None
    for attribute in attrs.fields(type(part)):
        if attribute.metadata.get("skip"):
            continue

        value = getattr(part, attribute.name)
        is_inline = attribute.metadata.get("inline") or attribute.metadata.get("spread")
        key: KeyPath = (
            () if is_inline else (attribute.metadata.get("key", attribute.name),)
        )

        is_of_machine = attribute.metadata.get("machine")
        if (
            is_of_machine is None
            and of_machine_kind
            and not isinstance(value, Component)
        ):
            hints = hints or get_type_hints(type(part))
            is_of_machine = holds_free_text(hints[attribute.name])

        if is_of_machine:
            yield key, value, _is_default(attribute, value)
            continue
        for path, setting, is_default in _settings(value, of_machine_kind):
            yield (*key, *path), setting, is_default


def holds_free_text(hint: Any) -> bool:
    """Return whether a field of this type can hold any text: neither numbers, nor choices, nor a table."""
    origin = get_origin(hint)
    if hint in NO_FREE_TEXT or hint is ... or origin is Literal:
        return False
    if origin in (Union, types.UnionType, tuple):
        return any(holds_free_text(member) for member in get_args(hint))
    if origin in (Mapping, dict):
        return holds_free_text(get_args(hint)[1])
    # The fields of a table are looked at one by one.
    return not (
        isinstance(hint, type) and (attrs.has(hint) or issubclass(hint, Component))
    )


def _is_default(attribute: attrs.Attribute[Any], value: Any) -> bool:
    default: Any = attribute.default
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]  # a class, whatever its stub says
        return not default.takes_self and bool(default.factory() == value)
    return bool(default == value)


def without_machine_settings(
    document: Document, recipe: Recipe | EncoderRecipe
) -> Document:
    """Return a recipe's document without the settings of the machine; its `left_out` has them.

    `recipe` is what the document was structured as.
    """
    data: dict[str, Any] = copy.deepcopy(dict(document.data))
    left_out: dict[KeyPath, Any] = {}
    for path, value, is_default in machine_settings(recipe):
        place = written_path(data, path)
        if _remove(data, place) and not is_default:
            left_out[place] = value
    return attrs.evolve(document, data=data, left_out=left_out)


def remove_machine_settings(data: dict[str, Any], recipe: Recipe) -> None:
    """Remove from TOML data, in place, what are settings of the machine in `recipe`."""
    for path, _, _ in machine_settings(recipe):
        _remove(data, written_path(data, path))


def _remove(data: Any, path: KeyPath) -> bool:
    """Remove a key of nested tables and arrays, in place; return whether it was there."""
    place = data
    for key in path[:-1]:
        try:
            place = place[key]
        except (LookupError, TypeError):
            return False
    if not isinstance(place, dict) or path[-1] not in place:
        return False
    del place[path[-1]]
    return True


def on_machine_of(recipe: Recipe, other: Recipe) -> Recipe:
    """Return a recipe that was read from a directory, with runtime and trackers of the caller's recipe."""
    document = attrs.evolve(recipe.document, left_out={})
    return attrs.evolve(
        recipe, runtime=other.runtime, tracker=other.tracker, document=document
    )


def left_out_sentence(recipe: Recipe) -> str | None:
    """Return which settings of the machine a directory's recipe lost and how to give them again, or None."""
    data = recipe.document.data
    settings = {
        written_path(data, path): value for path, value, _ in machine_settings(recipe)
    }
    left_out: dict[str, Any] = {}
    for path, value in recipe.document.left_out.items():
        if settings.get(path) != value:
            left_out[dotted(path)] = value
    if not left_out:
        return None
    shown = []
    options = []
    for key, value in left_out.items():
        shown.append(f"`{key}` ({_shown(value)})")
        options.append(f"--set {shlex.quote(f'{key}={_shown(value)}')}")
    return printable(
        f"where a run works and with whom is not read from its directory: {', '.join(shown)} left out; "
        f"if you trust them, give them again ({' '.join(options)}), or name the RECIPE"
    )


def _shown(value: Any) -> str:
    """Return a value as `--set` takes it, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
