"""Converts TOML data into attrs classes and back.

Unknown keys are refused, no value is converted to another type (except an integer to a float), and all problems
are reported at once. cattrs converts values. We walk the keys of tables ourselves, since each fault must keep the
path of its key, and no fault may hide another.

A field may have the base class of a kind of component as its type, such as `Pooler`. Its value in a recipe is a
table with `use = NAME`; the other keys of the table become the component's fields.
"""

from __future__ import annotations

import json
import math
import re
import traceback
import types
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs
import cattrs

from sentbed import _component_faults
from sentbed._component_faults import fault, release_of
from sentbed._document.toml import Document, KeyPath, unlocated
from sentbed._locations import FilePath, ModelId, absolute
from sentbed.errors import (
    PluginError,
    Problem,
    SentbedError,
    listed,
    reason_of,
    unknown_keys,
)
from sentbed.kinds import kind_of
from sentbed.protocols import Component, InstalledPlugins

T = TypeVar("T")

_WHOLE_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(_WHOLE_NUMBER.pattern + r"(?:\.[0-9]{1,18})?(?:e[+-]?[0-9]{1,2})?")
_BOUND = re.compile(r"'\w+' must be (>=|>|<=|<) ([^:]+): ")
"""Message of a number validator of attrs, up to the value: `'size' must be >= 1: 0`."""
_COMPARISONS = {">=": "at least", ">": "more than", "<=": "at most", "<": "less than"}
_NOUN: Mapping[Any, str] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


class _InvalidError(Exception):
    """Raised for an invalid value.

    `faults` has a pair for each fault: the path of its key within the value, and a message.
    """

    def __init__(self, faults: list[tuple[KeyPath, str]]) -> None:
        super().__init__("; ".join(message for _, message in faults))
        self.faults = faults

    def below(self, *keys: str | int) -> list[tuple[KeyPath, str]]:
        """Return the faults with `keys` put before each path."""
        return [((*keys, *path), message) for path, message in self.faults]


def _invalid(message: str) -> _InvalidError:
    """Return the error for a value that is invalid as a whole."""
    return _InvalidError([((), message)])


def structure(
    data: Mapping[str, Any],
    cls: type[T],
    document: Document,
    plugins: InstalledPlugins | None,
    base: Path,
    rename: tuple[KeyPath, KeyPath] = ((), ()),
    check: bool = True,
) -> tuple[T, list[Problem]]:
    """Convert `data` to an object of the attrs class `cls`; return the object and the problems.

    If there are problems, the object is None.

    Args:
        data: The data of the document, or a part of it.
        cls: Class of the result.
        document: The document, which has the file and line of each key.
        plugins: Installed plugins; None for classes without components.
        base: Directory for relative file paths.
        rename: Beginning of a path in `data`, and the beginning of the same path in the file, for messages.
        check: Whether components also check what they need, such as files (`Component.check`).
    """
    converter = make_converter(plugins, base, check)  # type: ignore[arg-type]  # plugins have an identity
    try:
        return converter.structure(data, cls), []
    except _InvalidError as error:
        problems = []
        old, new = rename
        for path, message in error.faults:
            path_in_file = path
            if path[: len(old)] == old:
                path_in_file = (*new, *path[len(old) :])
            problems.append(document.problem(message, path_in_file))
        problems.sort(key=lambda problem: problem.line or 0)
        return None, problems  # type: ignore[return-value]  # None if there are problems, as documented


@lru_cache(maxsize=2)  # a study structures all of its cells with the same converter
def make_converter(
    plugins: InstalledPlugins | None,
    base: Path,
    check: bool = True,
) -> cattrs.Converter:
    """Return a converter from TOML data to attrs classes, including the components of `plugins`.

    With `check`, the problems that a component's `check` method yields are faults of the component.
    """
    converter = cattrs.Converter()
    add = converter.register_structure_hook_func
    add(attrs.has, partial(_table, converter))
    # The class of a component takes a table. The base class of a kind takes a table for any component of the
    # kind.
    add(_is_kind, partial(_component, converter, plugins, check))
    add(_has_origin(Mapping, dict), partial(_mapping, converter))
    add(_has_origin(tuple), partial(_array, converter))
    add(_has_origin(Union, types.UnionType), partial(_union, converter))
    add(_has_origin(Literal), _literal)
    # Values of type Any are left as they are: a study's axes set them in a recipe, which is structured
    # afterwards.
    add(lambda kind: kind is Any, lambda value, _: value)
    add(lambda kind: kind is ModelId, partial(_model, base))
    add(lambda kind: kind is FilePath, partial(_path, base))
    for kind in _NOUN:
        converter.register_structure_hook(kind, _primitive)
    return converter


def _has_origin(*origins: Any) -> Callable[[Any], bool]:
    """Return a function that says whether a generic type has one of these origins (`typing.get_origin`)."""
    return lambda kind: get_origin(kind) in origins


def _is_kind(cls: Any) -> bool:
    """Whether a type is the base class of a kind of component."""
    return isinstance(cls, type) and kind_of(cls) is not None


def _primitive(value: Any, kind: Any) -> Any:
    """Return a string, an integer, a float or a boolean.

    Raises:
        _InvalidError: if `value` is not of type `kind`.
    """
    value = unlocated(value)
    # Types are compared exactly, since a bool is an int in Python. An int may be given for a float.
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind or (kind is float and not math.isfinite(value)):
        raise _unexpected(value, _NOUN[kind] + _quotation_advice(value, kind))
    return value


def _quotation_advice(value: Any, kind: Any) -> str:
    """Return how to write a number as a string, or a number in quotes as a number; empty in any other case."""
    if kind is str and type(value) in (int, float):
        return f': write `"{value}"`'
    if kind not in (int, float) or not isinstance(value, str):
        return ""
    number = _WHOLE_NUMBER if kind is int else _NUMBER
    if not number.fullmatch(value):
        return ""
    return f": write `{value}`"


def _path(
    base: Path,
    value: Any,
    _: Any,
) -> Any:
    """Return the absolute path for a field of type `FilePath`."""
    text = _primitive(value, str)
    try:
        return absolute(text, getattr(value, "directory", base))
    except (RuntimeError, ValueError, OSError) as error:
        raise _invalid(f"found {value!r}, expected a path: {error}") from error


def _model(
    base: Path,
    value: Any,
    kind: Any,
) -> Any:
    """Return the value of a field of type `ModelId`: a directory as an absolute path, anything else as it is."""
    text = _primitive(value, str)
    if text.startswith((".", "/", "~")):
        return _path(base, value, kind)
    return text


def _literal(value: Any, kind: Any) -> Any:
    """Return one of the choices of a `Literal` type. Raises `_InvalidError` if `value` is none of them."""
    value = unlocated(value)
    choices = get_args(kind)
    for choice in choices:
        if type(value) is type(choice) and value == choice:
            return value
    texts = sorted(str(choice) for choice in choices)
    # All are listed: a value that only another component has, such as a precision, is no misspelling of ours.
    raise _invalid(
        f"found {value!r}, which is not supported; choose one of {listed(texts)}"
    )


def _union(
    converter: cattrs.Converter,
    value: Any,
    kind: Any,
) -> Any:
    """Return a value for a union such as `int | str`, structured as the first member that may fit."""
    members = [member for member in get_args(kind) if member is not type(None)]

    plain = unlocated(value)
    is_finite = type(plain) is not float or math.isfinite(plain)
    if type(plain) in members and is_finite:
        return converter.structure(plain, type(plain))
    if len(members) == 1:
        return converter.structure(value, members[0])
    if float in members and type(value) is int:
        return float(value)

    arrays = [member for member in members if get_origin(member) is tuple]
    if arrays and isinstance(value, list):
        return converter.structure(value, arrays[0])

    nouns = [_NOUN[member] for member in members if member in _NOUN]
    if len(nouns) == len(members):
        raise _unexpected(value, " or ".join(nouns))
    first = next(member for member in members if member not in _NOUN)
    if attrs.has(first) and not isinstance(value, dict):
        nouns.append("a table")
        if arrays:
            nouns.append("an array")
        raise _unexpected(value, " or ".join(nouns))

    try:
        return converter.structure(value, first)
    except _InvalidError as error:
        if len(error.faults) > 1 or not arrays or arrays == [first]:
            raise
        if isinstance(value, dict):
            # The table is what was meant, and the fault is in it.
            raise
        path, message = error.faults[0]
        message = f"{message.rstrip('.')}. An array is possible too."
        raise _InvalidError([(path, message)]) from error


def _array(
    converter: cattrs.Converter,
    value: Any,
    kind: Any,
) -> Any:
    """Return a tuple for a type such as `tuple[int, ...]` or `tuple[int, str]`, with all elements structured."""
    if not isinstance(value, list):
        raise _unexpected(value, f"an array{_array_advice(value)}")
    types_of_elements = get_args(kind)
    if types_of_elements[-1] is ...:
        types_of_elements = (types_of_elements[0],) * len(value)
    elif len(value) != len(types_of_elements):
        raise _unexpected(value, f"an array of {len(types_of_elements)}")
    items = dict(enumerate(zip(value, types_of_elements, strict=True)))
    return tuple(_collect(converter, items).values())


def _array_advice(value: Any) -> str:
    """Return how to write a single value as an array: `: write [3]`. A string is split at its commas."""
    if isinstance(value, str):
        parts = [part.strip() for part in value.split(",")]
        return f": write `{json.dumps(parts)}`"
    if isinstance(value, int | float):
        return f": write `{json.dumps([value])}`"
    return ""


def _mapping(
    converter: cattrs.Converter,
    value: Any,
    kind: Any,
) -> Any:
    """Return a dictionary for a type such as `Mapping[str, int]`, with all values structured."""
    if not isinstance(value, dict):
        raise _unexpected(value, "a table")
    type_of_values = get_args(kind)[1]
    items = {key: (item, type_of_values) for key, item in value.items()}
    return _collect(converter, items)


def _component(
    converter: cattrs.Converter,
    plugins: InstalledPlugins | None,
    check: bool,
    value: Any,
    base: Any,
) -> Component:
    """Return the component that a table with `use = NAME` describes, of the kind whose base class is `base`."""
    assert plugins is not None, "only classes without components can do without plugins"
    kind_info = kind_of(base)
    assert kind_info is not None, "cattrs calls this only for base classes of kinds"
    kind = kind_info.name
    if kind_info.by_name and isinstance(value, str):
        value = {"use": unlocated(value)}
    if not isinstance(value, dict):
        raise _unexpected(value, f'a table with `use = "..."` that names a {kind}')

    fields = dict(value)
    name = fields.pop("use", kind_info.default)
    if not isinstance(name, str):
        choices = listed(plugins.names(kind))
        raise _invalid(f"the {kind} has no `use`; name one of {choices or 'a plugin'}")
    try:
        info = plugins.find(kind, name)
    except PluginError as error:
        raise _InvalidError([(("use",), str(error))]) from error

    component: Component = converter.structure(fields, info.cls)
    if check and (problems := _problems(component)):
        raise _InvalidError([((), message) for message in problems])
    return component


def _problems(component: Component) -> list[str]:
    """Return the problems that a component's `check` yields; if it raises, a message that names the plugin."""
    try:
        return list(component.check())
    except PluginError as error:
        return [str(error)]
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin's fault must not hide the other problems
        place = ""
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename not in (__file__, _component_faults.__file__):
                place = f"{frame.filename}:{frame.lineno}"
                break
        return [str(fault(component, "check", f"raised {reason_of(error)}", place))]


def _unexpected(value: Any, expected: str) -> _InvalidError:
    """Return the error for a value of the wrong type; `expected` describes the right one."""
    noun = ""
    if isinstance(value, dict):
        noun = "the table "
    elif isinstance(value, list):
        noun = "the array "
    return _invalid(f"found {noun}{value!r}, expected {expected}")


def _collect(
    converter: cattrs.Converter, items: Mapping[Any, tuple[Any, Any]]
) -> dict[Any, Any]:
    """Structure every item; `items` has the data and the type of each. Raises `_InvalidError` with all faults."""
    result: dict[Any, Any] = {}
    faults: list[tuple[KeyPath, str]] = []
    for key, (item, kind) in items.items():
        try:
            result[key] = converter.structure(item, kind)
        except _InvalidError as error:
            faults += error.below(key)
    if faults:
        raise _InvalidError(faults)
    return result


def fields_by_key(cls: type[Any]) -> dict[str, attrs.Attribute[Any]]:
    """Return the fields of a class that have a key in a recipe's table, by key."""
    fields = {}
    for field in attrs.fields(cls):
        if not (field.metadata.get("skip") or field.metadata.get("spread")):
            fields[field.metadata.get("key", field.name)] = field
    return fields


def _table(converter: cattrs.Converter, value: Any, cls: type[T]) -> T:
    """Return an object of the attrs class `cls` for a table. Raises `_InvalidError` with all faults."""
    if not isinstance(value, dict):
        raise _unexpected(value, "a table")
    types_of_fields = _types_of_fields(cls)  # type: ignore[arg-type]  # a class is hashable
    fields = fields_by_key(cls)

    items = dict(value)
    inline = next((key for key in fields if fields[key].metadata.get("inline")), None)
    if inline is not None:
        # A recipe writes the table of this field into the surrounding table.
        inner_keys = [key for key in items if key == inline or key not in fields]
        items[inline] = {key: items.pop(key) for key in inner_keys}

    arguments: dict[str, Any] = {}
    faults: list[tuple[KeyPath, str]] = []
    unknown = [key for key in items if key not in fields]
    for key, message in zip(unknown, unknown_keys(unknown, list(fields)), strict=True):
        advice = _inverse_advice(key, items[key], fields)
        faults.append(((key,), advice or message))

    for key, attribute in fields.items():
        if key not in items and attribute.default is attrs.NOTHING:
            faults.append(((), f"the required key `{key}` is missing"))
        if key not in items:
            continue
        try:
            item = converter.structure(items[key], types_of_fields[attribute.name])
        except _InvalidError as error:
            prefix: KeyPath = () if key == inline else (key,)
            faults += error.below(*prefix)
            continue
        except Exception as error:  # noqa: BLE001 - cattrs raises anything for a type that is not one of ours
            first = getattr(error, "exceptions", [error])[0]
            reason = " ".join(reason_of(first).split())
            message = f"found {items[key]!r:.80}, {_unusable_type(attribute, cls)} ({reason:.200})"
            faults.append(((key,), message))
            continue
        if refusal := _refusal_of_validator(cls, attribute, item):
            faults.append(((key,), refusal))
            continue
        arguments[attribute.alias or attribute.name] = item

    if faults:
        raise _InvalidError(faults)
    try:
        return cls(**arguments)
    except Exception as error:
        # `__attrs_post_init__` may refuse a combination of fields.
        raise _invalid(_refusal(error, cls)) from error


def _inverse_advice(
    key: str,
    value: Any,
    fields: Mapping[str, attrs.Attribute[Any]],
) -> str:
    """Return what to write for an unknown key that is the inverse of a field; empty if there is no such field.

    The metadata `inverse` of a field is the name that other libraries have for its inverse.
    """
    for name, field in fields.items():
        if field.metadata.get("inverse") == key:
            advice = f"unknown key `{key}`. `{name}` is 1 / `{key}`"
            if type(value) in (int, float) and value:
                advice += f": write `{name} = {1 / value:g}`"
            return advice
    return ""


def _refusal_of_validator(
    cls: type[Any], attribute: attrs.Attribute[Any], value: Any
) -> str:
    """Return why the validator of a field refuses a value; empty if it accepts the value."""
    if attribute.validator is None:
        return ""
    try:
        attribute.validator(None, attribute, value)
    except AttributeError:
        # The validator reads another field of the instance, which does not exist yet; `cls(...)` calls it again.
        return ""
    except Exception as error:  # noqa: BLE001 - a plugin's validator must not hide the other problems
        if bound := _BOUND.match(str(error)):
            limit = f"{_COMPARISONS[bound[1]]} {bound[2]}"
            return f"found {value!r:.200}, expected {limit}"
        return _refusal(error, cls, f"found {value!r:.200}: ")
    return ""


def _refusal(error: Exception, cls: type[Any], prefix: str = "") -> str:
    """Return why a class refuses its values: `prefix` and the message of the error.

    An unexpected error, such as a `KeyError`, is reported as a fault of the class, with file and line.
    """
    if isinstance(error, ValueError | TypeError | SentbedError) and error.args:
        return f"{prefix}{error.args[0]}"
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"making `{cls.__qualname__}` of {release_of(cls.__module__)} raised {reason_of(error)} @ "
        f"{frame.filename}:{frame.lineno}; {_component_faults.ADVICE}"
    )


def _unusable_type(attribute: attrs.Attribute[Any], cls: type[Any]) -> str:
    """Return a clause that says that a field's type cannot be used in a recipe, and which types can."""
    kind = attribute.type
    name = kind.__qualname__ if isinstance(kind, type) else kind
    return (
        f"which cannot become the type `{name}` of the field `{attribute.name}` of `{cls.__qualname__}` "
        f"({cls.__module__}); its plugin must use a type of recipes: `str`, `int`, `float`, `bool`, "
        "`Literal`, `tuple`, `Mapping`, an attrs class, a component's base class, or a union of these"
    )


@cache
def _types_of_fields(cls: type[Any]) -> Mapping[str, Any]:
    """Return the type of each field of a class. Raises `_InvalidError` if an annotation cannot be evaluated."""
    try:
        return get_type_hints(cls)
    except Exception as error:
        name = getattr(error, "name", "")
        what = "a field"
        for field in attrs.fields(cls):
            if name in re.findall(r"\w+", str(field.type)):
                what = f"the field `{field.name}`"
                break
        message = (
            f"the type of {what} of `{cls.__qualname__}` ({cls.__module__}) cannot be found: "
            f"{error}; its plugin must import it outside `if TYPE_CHECKING`"
        )
        raise _invalid(message) from error


def parts_in(part: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield the path and the object of each component and each other table in a part of a recipe.

    The part itself comes first, if it is one.
    """
    if isinstance(part, Mapping | list | tuple):
        items = part.items() if isinstance(part, Mapping) else enumerate(part)
        for key, value in items:
            yield from parts_in(value, (*path, key))
    elif attrs.has(type(part)):
        yield path, part
        for attribute in attrs.fields(type(part)):
            metadata = attribute.metadata
            if metadata.get("skip"):
                continue
            path_of_field = path
            if not metadata.get("inline", metadata.get("spread")):
                path_of_field = (*path, metadata.get("key", attribute.name))
            yield from parts_in(getattr(part, attribute.name), path_of_field)


def unstructure(part: Any) -> Any:
    """Return a recipe, or a part of it, as TOML data that includes every default value.

    File paths are absolute. None values are omitted, since TOML cannot represent them.
    """
    if attrs.has(type(part)):
        table: dict[str, Any] = {}
        if isinstance(part, Component):
            table["use"] = part.name
        for attribute in attrs.fields(type(part)):
            value = getattr(part, attribute.name)
            if value is None or attribute.metadata.get("skip"):
                continue
            data = unstructure(value)
            if attribute.metadata.get("inline"):
                table = {**data, **table}
            elif attribute.metadata.get("spread"):
                table |= data
            else:
                table[attribute.metadata.get("key", attribute.name)] = data
        return table
    if isinstance(part, Mapping):
        return {key: unstructure(value) for key, value in part.items()}
    if isinstance(part, tuple):
        return [unstructure(value) for value in part]
    return part
