"""Checks whether values read from a file have the types that the fields of an attrs class are annotated with."""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping, Sequence
from itertools import repeat
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs


def require_types(instance: Any, unchecked: Collection[str] = ()) -> None:
    """Raise `TypeError` if a field of an attrs instance does not have a value of its annotated type.

    attrs instances in the fields are checked as well. Fields with a name in `unchecked` may have any value.
    """
    types_of_fields = get_type_hints(type(instance))
    for field in attrs.fields(type(instance)):
        if field.name in unchecked:
            continue
        value = getattr(instance, field.name)
        if not _has_type(value, types_of_fields[field.name], unchecked):
            raise TypeError(f"`{field.name}` is {value!r:.80}, expected {field.type}")


def _has_type(
    value: Any,
    kind: Any,
    unchecked: Collection[str],
) -> bool:
    """Whether a value has a type. Raises `TypeError` if a field of an attrs instance in the value does not."""
    origin = get_origin(kind)
    arguments = get_args(kind)
    if kind is Any:
        return True
    if origin is Literal:
        return value in arguments
    if origin in (Union, types.UnionType):
        return any(_has_type(value, member, unchecked) for member in arguments)
    if origin is not None:
        return _has_container_type(value, origin, arguments, unchecked)
    if kind is type(None):
        return value is None
    if kind is float:
        return type(value) in (int, float)
    if kind in (int, str, bool):
        return type(value) is kind
    if not isinstance(value, kind):
        return False
    if attrs.has(type(value)):
        require_types(value, unchecked)
    return True


def _has_container_type(
    value: Any,
    origin: Any,
    arguments: Sequence[Any],
    unchecked: Collection[str],
) -> bool:
    """Whether a value is a tuple, mapping or sequence (`origin`) of items with the types `arguments`."""
    # A string is a sequence of strings, too, but is never meant by `Sequence[str]`.
    if not isinstance(value, origin) or isinstance(value, str):
        return False
    if issubclass(origin, Mapping):
        items_and_types = list(zip(value.keys(), repeat(arguments[0])))
        items_and_types += zip(value.values(), repeat(arguments[1]))
    elif origin is tuple and arguments[-1] is not ...:
        if len(value) != len(arguments):
            return False
        items_and_types = list(zip(value, arguments, strict=True))
    else:
        items_and_types = list(zip(value, repeat(arguments[0])))
    return all(_has_type(item, kind, unchecked) for item, kind in items_and_types)
