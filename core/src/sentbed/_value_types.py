"""Checks that the fields of an attrs class have values of their annotated types, for data from a file."""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping, Sequence
from itertools import repeat
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs


def require_types(instance: Any, unchecked: Collection[str] = ()) -> None:
    """Raise `TypeError` if a field of an attrs instance, or of one within it, has a value of another type.

    Fields whose names are `unchecked` may hold anything.
    """
    hints = get_type_hints(type(instance))
    for field in attrs.fields(type(instance)):
        if field.name in unchecked:
            continue
        value = getattr(instance, field.name)
        if not _is_of(value, hints[field.name], unchecked):
            raise TypeError(f"`{field.name}` is {value!r:.80}, expected {field.type}")


def _is_of(value: Any, kind: Any, unchecked: Collection[str]) -> bool:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin is Literal:
        return value in arguments
    if origin in (Union, types.UnionType):
        return any(_is_of(value, member, unchecked) for member in arguments)
    if origin is not None:
        return _is_of_container(value, origin, arguments, unchecked)
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


def _is_of_container(
    value: Any, origin: Any, arguments: Sequence[Any], unchecked: Collection[str]
) -> bool:
    """Whether a value is a tuple, a mapping or a sequence with items of the types `arguments`."""
    # A string is a sequence of strings, too, which is never what is meant.
    if not isinstance(value, origin) or isinstance(value, str):
        return False
    if issubclass(origin, Mapping):
        pairs = [*zip(value.keys(), repeat(arguments[0]))]
        pairs += zip(value.values(), repeat(arguments[1]))
    elif origin is tuple and arguments[-1] is not ...:
        if len(value) != len(arguments):
            return False
        pairs = [*zip(value, arguments, strict=True)]
    else:
        pairs = [*zip(value, repeat(arguments[0]))]
    return all(_is_of(item, kind, unchecked) for item, kind in pairs)
