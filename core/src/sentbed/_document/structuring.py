"""Converts TOML data into attrs classes and back.

cattrs structures tables: it refuses unknown keys, and collects all faults with their paths. Our hooks add what
a recipe has beyond that: no value is converted to another type (except an integer to a float), the validators of
all fields are asked, and a field may have the base class of a kind of component as its type, such as `Pooler`.
Its value in a recipe is a table with `use = NAME`; the other keys of the table become the component's fields.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from operator import is_
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import attrs
import cattrs
from cattrs.cols import homogenous_tuple_structure_factory, mapping_structure_factory
from cattrs.errors import (
    ClassValidationError,
    ForbiddenExtraKeysError,
    IterableValidationError,
    IterableValidationNote,
)
from cattrs.gen import make_dict_structure_fn, override

from sentbed._component_names import release_of
from sentbed._locations import FilePath, ModelId, absolute
from sentbed._toml import Document, KeyPath, Located
from sentbed.errors import (
    PluginError,
    Problem,
    RecipeError,
    SentbedError,
    listed,
    reason_of,
    unknown_keys,
)
from sentbed.kinds import KINDS, Kind
from sentbed.protocols import Component, InstalledPlugins

T = TypeVar("T")

_NOUN: Mapping[Any, str] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


def structure(
    document: Document,
    cls: Callable[..., T],
    plugins: InstalledPlugins | None,
    base: Path,
    at: KeyPath = (),
) -> T:
    """Convert a document, or its value at the path `at`, to an object of an attrs class or a kind of component.

    Components are not asked what is wrong with them; see `checks.check_components`.

    Args:
        document: The document, which has the file and line of each key.
        cls: Class of the result, or the base class of a kind of component.
        plugins: Installed plugins; None for classes without components.
        base: Directory for relative file paths.
        at: Path of the value.

    Raises:
        RecipeError: if the value has problems. The error lists all of them.
    """
    converter = make_converter(plugins, base)  # type: ignore[arg-type]  # plugins have an identity
    try:
        return converter.structure(document.value(at), cls)  # type: ignore[arg-type]  # kinds are abstract
    except Exception as error:
        problems = []
        for path, message in faults_of(error):
            problems.append(document.problem(message, (*at, *path)))
        raise RecipeError(in_order(problems)) from error


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Return problems in the order of their lines; those without a line come first."""
    return sorted(problems, key=lambda problem: problem.line or 0)


def faults_of(
    error: BaseException,
    cls: type[Any] | None = None,
    more_keys: Iterable[str] = (),
) -> Iterator[tuple[KeyPath, str]]:
    """Yield the path and the message of each fault in an error of a converter, which `cls` raised.

    `more_keys` are those of the table around an inline table, which is written into it.
    """
    if isinstance(error, ForbiddenExtraKeysError):
        unknown = sorted(error.extra_fields)
        messages = unknown_keys(unknown, [*fields_by_key(error.cl), *more_keys])
        for key, message in zip(unknown, messages, strict=True):
            yield (key,), message
    elif isinstance(error, IterableValidationError):
        for item_error, item in error.group_exceptions()[0]:
            for path, message in faults_of(item_error, cls):
                yield (item.index, *path), message
    elif isinstance(error, ClassValidationError):
        with_notes, others = error.group_exceptions()
        for field_error, note in with_notes:
            field = attrs.fields_dict(error.cl)[note.name]
            yield from _faults_of_field(field_error, field, error.cl)
        for other in others:
            yield from faults_of(other, error.cl, more_keys)
    else:
        yield (), _message(error, cls)


def _faults_of_field(
    error: BaseException, field: attrs.Attribute[Any], cls: type[Any]
) -> Iterator[tuple[KeyPath, str]]:
    """Yield the path and the message of each fault in the value of a field of `cls`."""
    key = field.metadata.get("key", field.name)
    if isinstance(error, KeyError) and error.args == (key,):
        yield (), f"the required key `{key}` is missing"
        return
    if field.metadata.get("inline"):
        yield from faults_of(error, cls, fields_by_key(cls))
        return
    for path, message in faults_of(error, cls):
        yield (key, *path), message


def _message(error: BaseException, cls: type[Any] | None) -> str:
    """Return the message of an error. It names the class if it is no rule of the class that raised the error."""
    if isinstance(error, ValueError | TypeError | SentbedError) and error.args:
        return str(error.args[0])
    if cls is None:
        return reason_of(error)
    release = release_of(cls.__module__)
    return f"making `{cls.__qualname__}` of {release} raised {reason_of(error)}"


@lru_cache(maxsize=2)  # a study structures all of its cells with the same converter
def make_converter(
    plugins: InstalledPlugins | None,
    base: Path,
) -> cattrs.Converter:
    """Return a converter from TOML data to attrs classes, including the components of `plugins`."""
    converter = cattrs.Converter(forbid_extra_keys=True)
    add = converter.register_structure_hook_func
    add_factory = converter.register_structure_hook_factory
    add_factory(attrs.has, partial(_table, converter))
    if plugins is not None:
        # The class of a component takes a table. The base class of a kind takes a table for any component of
        # the kind.
        for kind in KINDS.values():
            hook = partial(_component, converter, plugins, kind)
            add(partial(is_, kind.base), hook)
    add_factory(_has_origin(Mapping, dict), partial(_mapping, converter))
    add_factory(_has_origin(tuple), partial(_array, converter))
    add(_has_origin(Union, types.UnionType), partial(_union, converter))
    add(_has_origin(Literal), _literal)
    add(partial(is_, ModelId), partial(_model, base))
    add(partial(is_, FilePath), partial(_path, base))
    for primitive in _NOUN:
        converter.register_structure_hook(primitive, _primitive)
    return converter


def _has_origin(*origins: Any) -> Callable[[Any], bool]:
    """Return a function that says whether a generic type has one of these origins (`typing.get_origin`)."""
    return lambda kind: get_origin(kind) in origins


class _UnexpectedError(TypeError):
    """Raised for a value of the wrong type; `expected` describes the right one."""

    def __init__(self, value: Any, expected: str) -> None:
        noun = ""
        if isinstance(value, dict):
            noun = "the table "
        elif isinstance(value, list):
            noun = "the array "
        super().__init__(f"found {noun}{value!r}, expected {expected}")
        self.expected = expected


def _primitive(value: Any, kind: Any) -> Any:
    """Return a string, an integer, a float or a boolean. Raises `_UnexpectedError` for another type."""
    if isinstance(value, Located):
        value = str(value)
    # Types are compared exactly, since a bool is an int in Python. An int may be given for a float.
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind or (kind is float and not math.isfinite(value)):
        raise _UnexpectedError(value, _NOUN[kind])
    return value


def _path(
    base: Path,
    value: Any,
    _: Any,
) -> str:
    """Return the absolute path for a field of type `FilePath`."""
    text = _primitive(value, str)
    try:
        return absolute(text, getattr(value, "directory", base))
    except (RuntimeError, ValueError, OSError) as error:
        raise ValueError(f"found {text!r}, expected a path: {error}") from error


def _model(
    base: Path,
    value: Any,
    kind: Any,
) -> str:
    """Return the value of a field of type `ModelId`: a directory as an absolute path, anything else as it is."""
    text: str = _primitive(value, str)
    if text.startswith((".", "/", "~")):
        return _path(base, value, kind)
    return text


def _literal(value: Any, kind: Any) -> Any:
    """Return one of the choices of a `Literal` type. Raises `_UnexpectedError` if `value` is none of them."""
    choices = get_args(kind)
    for choice in choices:
        if value == choice and isinstance(value, type(choice)):
            return choice
    # All are listed: a value that only another component has, such as a precision, is no misspelling of ours.
    texts = sorted(str(choice) for choice in choices)
    raise _UnexpectedError(value, f"one of {listed(texts)}")


def _union(
    converter: cattrs.Converter,
    value: Any,
    kind: Any,
) -> Any:
    """Return a value for a union such as `int | str`, structured as the first member that takes its type."""
    expected = []
    for member in get_args(kind):
        if member is NoneType:
            continue
        try:
            return converter.structure(value, member)
        except _UnexpectedError as error:
            expected.append(error.expected)
    raise _UnexpectedError(value, " or ".join(expected))


def _array(converter: cattrs.Converter, kind: Any) -> Callable[[Any, Any], Any]:
    """Return the hook for a type such as `tuple[int, ...]` or `tuple[int, str]`."""
    types_of_elements = get_args(kind)
    has_any_length = types_of_elements[-1] is ...
    structure_elements = homogenous_tuple_structure_factory(kind, converter)

    def structure_array(value: Any, _: Any) -> Any:
        if not isinstance(value, list):
            raise _UnexpectedError(value, "an array")
        if has_any_length:
            return structure_elements(value, kind)
        if len(value) != len(types_of_elements):
            raise _UnexpectedError(value, f"an array of {len(types_of_elements)}")
        return tuple(map(converter.structure, value, types_of_elements))

    return structure_array


def _mapping(converter: cattrs.Converter, kind: Any) -> Callable[[Any, Any], Any]:
    """Return the hook for a type such as `Mapping[str, int]`."""
    structure_items = mapping_structure_factory(kind, converter)

    def structure_mapping(value: Any, _: Any) -> Any:
        if not isinstance(value, dict):
            raise _UnexpectedError(value, "a table")
        return structure_items(value, kind)

    return structure_mapping


_QUALIFIED_NAMES: dict[type[Any], str] = {}
"""Name, with its distribution, of each class that shares its name with another, such as `sentbed-mine:mean`."""


def _component(
    converter: cattrs.Converter,
    plugins: InstalledPlugins,
    kind: Kind,
    value: Any,
    base: Any,
) -> Component:
    """Return the component of a kind, with the base class `base`, that a table with `use = NAME` describes."""
    if kind.by_name and isinstance(value, str):
        value = {"use": value}
    if not isinstance(value, dict):
        raise _UnexpectedError(
            value, f'a table with `use = "..."` that names a {kind.name}'
        )

    fields = dict(value)
    name = fields.pop("use", kind.default)
    if not isinstance(name, str):
        choices = listed(plugins.names(kind.name))
        raise TypeError(
            f"the {kind.name} has no `use`; name one of {choices or 'a plugin'}"
        )
    try:
        cls = plugins.load(kind.name, str(name))
    except PluginError as error:
        error.add_note(IterableValidationNote("The name", "use", str))
        raise IterableValidationError("While finding it", [error], base) from error

    _, _, plain_name = name.rpartition(":")
    if plain_name not in plugins.names(kind.name):
        _QUALIFIED_NAMES[cls] = name
    try:
        component: Component = converter.structure(fields, cls)
    except ClassValidationError:
        raise
    except Exception as error:
        # The class itself is faulty, such as a field of a type that cannot be imported.
        raise ClassValidationError("Its class", [error], cls) from error
    return component


def fields_by_key(cls: type[Any]) -> dict[str, attrs.Attribute[Any]]:
    """Return the fields of a class that have a key in a recipe's table, by key."""
    fields = {}
    for field in attrs.fields(cls):
        metadata = field.metadata
        if field.init and not metadata.get("skip", metadata.get("spread")):
            fields[metadata.get("key", field.name)] = field
    return fields


def _table(converter: cattrs.Converter, cls: type[T]) -> Callable[[Any, Any], T]:
    """Return the hook that structures a table as the attrs class `cls`."""
    fields = fields_by_key(cls)
    overrides: dict[str, Any] = {}
    for field in attrs.fields(cls):  # type: ignore[arg-type]  # cattrs calls this for attrs classes only
        overrides[field.name] = override(omit=True)
    for key, field in fields.items():
        hook = partial(_field, converter, field)
        overrides[field.name] = override(rename=key, struct_hook=hook)
    structure_fields = make_dict_structure_fn(cls, converter, **overrides)
    inline = [key for key, field in fields.items() if field.metadata.get("inline")]

    def structure_table(value: Any, _: Any) -> T:
        if not isinstance(value, dict):
            raise _UnexpectedError(value, "a table")
        for key in inline:
            value = _with_inline_table(value, key, fields)
        return structure_fields(value, cls)

    return structure_table


def _with_inline_table(
    table: Mapping[str, Any], inline: str, fields: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a table in which all keys that belong to its field `inline` are in a table of their own."""
    outer = {}
    inner = {}
    for key, value in table.items():
        if key in fields and key != inline:
            outer[key] = value
        else:
            inner[key] = value
    return {**outer, inline: inner}


def _field(
    converter: cattrs.Converter,
    field: attrs.Attribute[Any],
    value: Any,
    kind: Any,
) -> Any:
    """Return the value of a field, which its validator has accepted.

    Otherwise only `__init__` would call the validators, and only for a table without any other fault.
    """
    item = converter.structure(value, kind)
    if field.validator is not None:
        # A validator that reads another field of the instance has to wait for `__init__`.
        with suppress(AttributeError):
            field.validator(None, field, item)
    return item


def parts_in(part: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield the path and the object of each component and each other table in a part of a recipe.

    The part itself comes first, if it is one.
    """
    if attrs.has(type(part)):
        yield path, part
    for key, value in _items_of(part):
        yield from parts_in(value, (*path, *key))


def _items_of(part: Any) -> Iterator[tuple[KeyPath, Any]]:
    """Yield the key and the value of each field of a table, item of a mapping, and element of an array.

    For a field whose table is written into the table around it, the key is empty.
    """
    if isinstance(part, Mapping):
        for key, value in part.items():
            yield (key,), value
    elif isinstance(part, list | tuple):
        for index, value in enumerate(part):
            yield (index,), value
    elif attrs.has(type(part)):
        for field in attrs.fields(type(part)):
            value = getattr(part, field.name)
            if field.metadata.get("inline") or field.metadata.get("spread"):
                yield (), value
            elif not field.metadata.get("skip"):
                yield (field.metadata.get("key", field.name),), value


def unstructure(part: Any) -> Any:
    """Return a recipe, or a part of it, as TOML data that includes every default value.

    File paths are absolute. None values are omitted, since TOML cannot represent them.
    """
    if isinstance(part, tuple):
        return [unstructure(value) for value in part]
    if not attrs.has(type(part)) and not isinstance(part, Mapping):
        return part

    table: dict[str, Any] = {}
    if isinstance(part, Component):
        table["use"] = _QUALIFIED_NAMES.get(type(part), part.name)
    for key, value in _items_of(part):
        if value is None:
            continue
        if key:
            table[str(key[0])] = unstructure(value)
        else:
            table |= unstructure(value)
    return table
