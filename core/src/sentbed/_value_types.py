"""Values of the types that the fields of a class say, for what was read from a file that may be any."""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs


def require_types(instance: Any, unchecked: Collection[str] = ()) -> None:
    """Raise `TypeError` if a field of an attrs class, or of one within it, holds a value of another type.

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
    if origin is tuple and arguments[-1] is ...:
        return isinstance(value, tuple) and all(
            _is_of(item, arguments[0], unchecked) for item in value
        )
    if origin is tuple:
        if not isinstance(value, tuple) or len(value) != len(arguments):
            return False
        return all(
            _is_of(item, member, unchecked)
            for item, member in zip(value, arguments, strict=True)
        )
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            return False
        for key, item in value.items():
            if not _is_of(key, arguments[0], unchecked) or not _is_of(
                item, arguments[1], unchecked
            ):
                return False
        return True
    if origin is not None and issubclass(origin, Sequence):
        # A tuple has been handled above; a text is a sequence of texts, and never what is meant.
        if not isinstance(value, origin) or isinstance(value, str):
            return False
        return all(_is_of(item, arguments[0], unchecked) for item in value)
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
