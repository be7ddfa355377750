"""Machine settings of a recipe, such as addresses and devices. They are never read from a run directory.

Somebody else may have written the directory. When its recipe is read, machine settings are left out. The user
sets them again with `--set`, or the defaults are used.
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
"""Kinds of components whose text fields are machine settings, unless a field's metadata says otherwise."""

NO_FREE_TEXT = (bool, int, float, types.NoneType)
"""Types whose values cannot be an arbitrary text."""

LONGEST_SHOWN = 80
"""Number of characters to which a value in a message is cut."""


def machine_settings(
    part: Any, of_machine_kind: bool = False
) -> Iterator[tuple[KeyPath, Any, bool]]:
    """Yield path and value of each machine setting in (a part of) a recipe, and whether it is the default.

    A field is a machine setting if it has the metadata `protocols.OF_MACHINE`. A field of a runtime, tracker or
    executor that can have any text as its value, such as an address or a path, is one as well, unless it has the
    metadata `protocols.OF_RUN`. `of_machine_kind` says whether the part lies within such a component.
    """
    if isinstance(part, Mapping | tuple):
        items = part.items() if isinstance(part, Mapping) else enumerate(part)
        for key, value in items:
            for path, setting, is_default in machine_settings(value, of_machine_kind):
                yield (key, *path), setting, is_default
    elif attrs.has(type(part)):
        of_machine_kind = of_machine_kind or isinstance(part, KINDS_OF_MACHINE)
        yield from _settings_of_fields(part, of_machine_kind)


def _settings_of_fields(
    part: Any, of_machine_kind: bool
) -> Iterator[tuple[KeyPath, Any, bool]]:
    """Yield the machine settings in the fields of an attrs object."""
    types_of_fields: Mapping[str, Any] | None = None
    for attribute in attrs.fields(type(part)):
        if attribute.metadata.get("skip"):
            continue

        value = getattr(part, attribute.name)
        key: KeyPath = (attribute.metadata.get("key", attribute.name),)
        if attribute.metadata.get("inline") or attribute.metadata.get("spread"):
            key = ()

        is_of_machine = attribute.metadata.get("machine")
        may_be_text = of_machine_kind and not isinstance(value, Component)
        if is_of_machine is None and may_be_text:
            types_of_fields = types_of_fields or get_type_hints(type(part))
            is_of_machine = holds_free_text(types_of_fields[attribute.name])

        if is_of_machine:
            yield key, value, _is_default(attribute, value)
            continue
        for path, setting, is_default in machine_settings(value, of_machine_kind):
            yield (*key, *path), setting, is_default


def holds_free_text(hint: Any) -> bool:
    """Whether a field of this type can have any text as its value, unlike numbers, choices and tables."""
    origin = get_origin(hint)
    if hint in NO_FREE_TEXT or hint is ... or origin is Literal:
        return False
    if origin in (Union, types.UnionType, tuple):
        return any(holds_free_text(member) for member in get_args(hint))
    if origin in (Mapping, dict):
        return holds_free_text(get_args(hint)[1])
    if not isinstance(hint, type):
        return True
    # The fields of an attrs class are looked at one by one.
    return not (attrs.has(hint) or issubclass(hint, Component))


def _is_default(attribute: attrs.Attribute[Any], value: Any) -> bool:
    """Whether a value is the default of its field; False if the default depends on other fields."""
    default: Any = attribute.default
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]  # a class, whatever its stub says
        return not default.takes_self and bool(default.factory() == value)
    return bool(default == value)


def without_machine_settings(
    document: Document, recipe: Recipe | EncoderRecipe
) -> Document:
    """Return a document without its machine settings.

    `left_out` of the result has those settings whose values are not the default. `recipe` is the recipe or the
    encoder that the document describes.
    """
    data: dict[str, Any] = copy.deepcopy(dict(document.data))
    left_out: dict[KeyPath, Any] = {}
    for path, value, is_default in machine_settings(recipe):
        path_in_file = written_path(data, path)
        if _remove(data, path_in_file) and not is_default:
            left_out[path_in_file] = value
    return attrs.evolve(document, data=data, left_out=left_out)


def remove_machine_settings(data: dict[str, Any], recipe: Recipe) -> None:
    """Remove the machine settings of a recipe from its TOML data, in place."""
    for path, _, _ in machine_settings(recipe):
        _remove(data, written_path(data, path))


def _remove(data: Any, path: KeyPath) -> bool:
    """Remove a key of nested tables and arrays, in place; return whether it was there."""
    *parents, key = path
    for parent in parents:
        try:
            data = data[parent]
        except (LookupError, TypeError):
            return False
    if not isinstance(data, dict) or key not in data:
        return False
    del data[key]
    return True


def on_machine_of(recipe: Recipe, other: Recipe) -> Recipe:
    """Return `recipe`, which was read from a directory, with the runtime and the trackers of `other` instead."""
    document = attrs.evolve(recipe.document, left_out={})
    return attrs.evolve(
        recipe,
        runtime=other.runtime,
        tracker=other.tracker,
        document=document,
    )


def left_out_sentence(recipe: Recipe) -> str | None:
    """Return a warning about the machine settings that were left out, with options to set them again.

    Return None if none was left out, or if all have been set again to the same values.
    """
    data = recipe.document.data
    settings = {}
    for path, value, _ in machine_settings(recipe):
        settings[written_path(data, path)] = value

    shown = []
    options = []
    for path, value in recipe.document.left_out.items():
        if settings.get(path) == value:
            continue  # an override has set it again
        key = dotted(path)
        shown.append(f"`{key}` ({_shown(value)})")
        options.append(f"--set {shlex.quote(f'{key}={_shown(value)}')}")
    if not shown:
        return None
    return printable(
        f"where a run works and with whom is not read from its directory: {', '.join(shown)} left out; "
        f"if you trust them, give them again ({' '.join(options)}), or name the RECIPE"
    )


def _shown(value: Any) -> str:
    """Return a value as it is written for `--set`, cut if it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    if len(text) > LONGEST_SHOWN:
        return f"{text[:LONGEST_SHOWN]}..."
    return text
