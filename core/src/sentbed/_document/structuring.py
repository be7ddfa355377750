"""Structuring of documents into attrs classes: no unknown keys, no coercion, all problems at once.

cattrs converts values; we walk a table's keys ourselves because each fault must keep its path and none may
hide another. A field whose type is the base class of a kind takes a table with `use = NAME`; the other keys
become the component's fields.
"""

from __future__ import annotations

import json
import math
import re
import traceback
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs
import cattrs

from sentbed import _component_faults
from sentbed._component_faults import fault, release_of, sentences
from sentbed._document.toml import Document, KeyPath, unlocated
from sentbed._locations import FilePath, ModelId, WrittenPath, placed
from sentbed.errors import (
    PluginError,
    Problem,
    SentbedError,
    listed,
    reason_of,
    suggest,
    unknown_keys,
)
from sentbed.kinds import kind_of
from sentbed.protocols import Component, InstalledPlugins

T = TypeVar("T")

LONGEST_PATH = 4000
"""Largest number of characters of a path in a recipe; Linux allows 4,095."""

_WHOLE_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(_WHOLE_NUMBER.pattern + r"(?:\.[0-9]{1,18})?(?:e[+-]?[0-9]{1,2})?")
_NOUN: Mapping[Any, str] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


class _InvalidError(Exception):
    """Raised for an invalid value; carries (path below the value, message) pairs."""

    def __init__(self, faults: list[tuple[KeyPath, str]]) -> None:
        super().__init__("; ".join(message for _, message in faults))
        self.faults = faults

    def below(self, *keys: str | int) -> list[tuple[KeyPath, str]]:
        """Return the faults with paths that start with `keys`."""
        return [((*keys, *path), message) for path, message in self.faults]


def _invalid(message: str) -> _InvalidError:
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
    """Structure `data` as `cls`; return the result, which is only valid without problems, and the problems.

    `base` is the directory of relative paths; `rename` is a path prefix, and the prefix used in the file.
    With `check`, components also check their requirements, such as files.
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
        return None, problems  # type: ignore[return-value]  # invalid where there are problems, as documented


@lru_cache(maxsize=2)  # the cells of a study are structured alike
def make_converter(
    plugins: InstalledPlugins | None, base: Path, check: bool = True
) -> cattrs.Converter:
    """Return a converter that knows the components of `plugins` and coerces nothing.

    With `check`, the problems from a component's `check` method are reported as faults.
    """
    converter = cattrs.Converter()
    add = converter.register_structure_hook_func
    add(attrs.has, partial(_table, converter))
    # A component class is a table; the base class of a kind means any component of that kind.
    add(_is_kind, partial(_component, converter, plugins, check))
    add(_has_origin(Mapping, dict), partial(_mapping, converter))
    add(_has_origin(tuple), partial(_array, converter))
    add(_has_origin(Union, types.UnionType), partial(_union, converter))
    add(_has_origin(Literal), _literal)
    # The values that a study's axes set are structured once they are in the recipe.
    add(lambda kind: kind is Any, lambda value, _: value)
    add(lambda kind: kind is ModelId, partial(_model, base))
    add(lambda kind: kind is FilePath, partial(_path, base))
    for kind in _NOUN:
        converter.register_structure_hook(kind, _primitive)
    return converter


def _has_origin(*origins: Any) -> Callable[[Any], bool]:
    return lambda kind: get_origin(kind) in origins


def _is_kind(cls: Any) -> bool:
    return isinstance(cls, type) and kind_of(cls) is not None


def _primitive(value: Any, kind: Any) -> Any:
    value = unlocated(value)
    # In Python a bool is an int; in TOML the two are distinct, and an int may be given for a float.
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind or (kind is float and not math.isfinite(value)):
        raise _fault(value, _NOUN[kind] + _written(value, kind))
    if kind is int and not -(2**63) <= value < 2**63:
        raise _invalid("found a whole number of more than 64 bits; take a smaller one")
    return value


def _written(value: Any, kind: Any) -> str:
    """Return how to write a value with quotes that it lacks, or without quotes that it has; else nothing."""
    if kind is str and type(value) in (int, float):
        return f': write `"{value}"`'
    if kind not in (int, float) or not isinstance(value, str):
        return ""
    number = _WHOLE_NUMBER if kind is int else _NUMBER
    if not number.fullmatch(value):
        return ""
    return f": write `{value}`"


def _path(base: Path, value: Any, _: Any) -> Any:
    text = _primitive(value, str)
    if len(text) > LONGEST_PATH:
        message = f"found a path of {len(text):,} characters, expected at most {LONGEST_PATH:,}; shorten it"
        raise _invalid(message)
    try:
        return placed(text, getattr(value, "directory", base))
    except (RuntimeError, ValueError, OSError) as error:
        raise _invalid(f"found {value!r}, expected a path: {error}") from error


def _model(base: Path, value: Any, kind: Any) -> Any:
    text = _primitive(value, str)
    return _path(base, value, kind) if text.startswith((".", "/", "~")) else text


def _literal(value: Any, kind: Any) -> Any:
    choices, value = get_args(kind), unlocated(value)
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        raise _invalid(f"found {value!r}.{suggest(str(value), [*map(str, choices)])}")
    return value


def _union(converter: cattrs.Converter, value: Any, kind: Any) -> Any:
    members = [m for m in get_args(kind) if m is not type(None)]
    plain = unlocated(value)
    is_finite = type(plain) is not float or math.isfinite(plain)
    if type(plain) in members and is_finite:
        return plain
    if len(members) == 1:
        return converter.structure(value, members[0])
    if float in members and type(value) is int:
        return float(value)
    arrays = [member for member in members if get_origin(member) is tuple]
    if arrays and isinstance(value, list):
        return converter.structure(value, arrays[0])
    nouns = [_NOUN[member] for member in members if member in _NOUN]
    if len(nouns) == len(members):
        raise _fault(value, " or ".join(nouns))
    first = next(member for member in members if member not in _NOUN)
    if attrs.has(first) and not isinstance(value, dict):
        raise _fault(value, " or ".join([*nouns, "a table"]))
    try:
        return converter.structure(value, first)
    except _InvalidError as error:
        if len(error.faults) > 1 or not arrays or arrays == [first]:
            raise
        path, message = error.faults[0]
        message = f"{message.rstrip('.')}. An array is possible too."
        raise _InvalidError([(path, message)]) from error


def _array(converter: cattrs.Converter, value: Any, kind: Any) -> Any:
    if not isinstance(value, list):
        raise _fault(value, f"an array{_as_array(value)}")
    arguments = get_args(kind)
    if arguments[-1] is not ... and len(value) != len(arguments):
        raise _fault(value, f"an array of {len(arguments)}")
    if arguments[-1] is ...:
        arguments = (arguments[0],) * len(value)
    items = dict(enumerate(zip(value, arguments, strict=True)))
    return tuple(_collect(converter, items).values())


def _as_array(value: Any) -> str:
    """Return how to write a single value as an array; a text, such as one from `--set`, is split at commas."""
    if isinstance(value, str):
        parts = [part.strip() for part in value.split(",")]
        return f": write `{json.dumps(parts)}`"
    if isinstance(value, int | float):
        return f": write `{json.dumps([value])}`"
    return ""


def _mapping(converter: cattrs.Converter, value: Any, kind: Any) -> Any:
    if not isinstance(value, dict):
        raise _fault(value, "a table")
    return _collect(
        converter, {key: (item, get_args(kind)[1]) for key, item in value.items()}
    )


def _component(
    converter: cattrs.Converter,
    plugins: InstalledPlugins | None,
    check: bool,
    value: Any,
    base: Any,
) -> Component:
    assert plugins is not None, "tables without components need no plugins"
    kind_info = kind_of(base)
    assert kind_info is not None, "the hook is for base classes of kinds"
    kind = kind_info.name
    if kind_info.by_name and isinstance(value, str):
        value = {"use": unlocated(value)}
    if not isinstance(value, dict):
        raise _fault(value, f'a table with `use = "..."` that names a {kind}')
    fields = dict(value)
    name = fields.pop("use", None)
    if not isinstance(name, str):
        choices = listed(plugins.names(kind))
        raise _invalid(f"the {kind} has no `use`; name one of {choices or 'a plugin'}")
    try:
        info = plugins.find(kind, name)
    except PluginError as error:
        raise _InvalidError([(("use",), str(error))]) from error
    part: Component = converter.structure(fields, info.cls)
    if check and (problems := _problems(part)):
        raise _InvalidError([((), message) for message in problems])
    return part


def _problems(part: Component) -> list[str]:
    """Return the problems that a component's `check` yields, or the fault of `check` itself."""
    try:
        return sentences(part.check(), part, "check")
    except PluginError as error:
        return [str(error)]
    except Exception as error:  # noqa: BLE001 - a plugin's fault must not hide the other problems
        place = ""
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename not in (__file__, _component_faults.__file__):
                place = f"{frame.filename}:{frame.lineno}"
                break
        return [str(fault(part, "check", f"raised {reason_of(error)}", place))]


def _fault(value: Any, expected: str) -> _InvalidError:
    noun = ""
    if isinstance(value, dict):
        noun = "the table "
    elif isinstance(value, list):
        noun = "the array "
    return _invalid(f"found {noun}{value!r}, expected {expected}")


def _collect(
    converter: cattrs.Converter, items: Mapping[Any, tuple[Any, Any]]
) -> dict[Any, Any]:
    """Structure every item and raise all faults together, each under its key."""
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
    """Return the key in a table -> the field of a class."""
    fields = {}
    for field in attrs.fields(cls):
        if not (field.metadata.get("skip") or field.metadata.get("spread")):
            fields[field.metadata.get("key", field.name)] = field
    return fields


def _table(converter: cattrs.Converter, value: Any, cls: type[T]) -> T:
    if not isinstance(value, dict):
        raise _fault(value, "a table")
    hints = _hints(cls)  # type: ignore[arg-type]  # a class is hashable
    fields = fields_by_key(cls)
    inline = next((key for key, a in fields.items() if a.metadata.get("inline")), None)
    items = dict(value)
    if inline is not None:
        items = _with_inline_table(items, fields.keys() - {inline}, inline)
    arguments: dict[str, Any] = {}
    faults: list[tuple[KeyPath, str]] = []
    unknown = [key for key in items if key not in fields]
    for key, message in zip(unknown, unknown_keys(unknown, list(fields)), strict=True):
        faults.append(((key,), message))
    for key, attribute in fields.items():
        if key not in items and attribute.default is attrs.NOTHING:
            faults.append(((), f"the required key `{key}` is missing"))
        if key not in items:
            continue
        try:
            item = converter.structure(items[key], hints[attribute.name])
        except _InvalidError as error:
            prefix: KeyPath = () if key == inline else (key,)
            faults += error.below(*prefix)
            continue
        except Exception as error:  # noqa: BLE001 - cattrs raises anything for a type that is not one of ours
            first = getattr(error, "exceptions", [error])[0]
            reason = " ".join(reason_of(first).split())
            message = (
                f"found {items[key]!r:.80}, {_no_type(attribute, cls)} ({reason:.200})"
            )
            faults.append(((key,), message))
            continue
        if refusal := _validate(cls, attribute, item):
            faults.append(((key,), refusal))
            continue
        arguments[attribute.alias or attribute.name] = item
    if faults:
        raise _InvalidError(faults)
    try:
        return cls(**arguments)
    except Exception as error:
        # A component's `__attrs_post_init__` may refuse a combination of fields.
        raise _invalid(_refusal(error, cls)) from error


def _validate(cls: type[Any], attribute: attrs.Attribute[Any], value: Any) -> str:
    """Return why the validator of a field refuses a value; empty if it does not."""
    if attribute.validator is None:
        return ""
    try:
        attribute.validator(None, attribute, value)
    except AttributeError:
        # A validator that looks at other fields needs the instance; the constructor calls it again.
        return ""
    except Exception as error:  # noqa: BLE001 - a plugin's validator must not hide the other problems
        return _refusal(error, cls, f"found {value!r:.200}: ")
    return ""


def _with_inline_table(
    items: Mapping[str, Any], own_keys: Collection[str], inline: str
) -> dict[str, Any]:
    """Return items with all that are not keys of the table itself moved into a table under the key `inline`."""
    table = {key: item for key, item in items.items() if key in own_keys}
    table[inline] = {key: item for key, item in items.items() if key not in own_keys}
    return table


def _refusal(error: Exception, cls: type[Any], prefix: str = "") -> str:
    """Return the message with which a class refuses its values, or, for an unexpected error, that it raised."""
    if isinstance(error, ValueError | TypeError | SentbedError) and error.args:
        return f"{prefix}{error.args[0]}"
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"making `{cls.__qualname__}` of {release_of(cls.__module__)} raised {reason_of(error)} @ "
        f"{frame.filename}:{frame.lineno}; {_component_faults.ADVICE}"
    )


def _no_type(attribute: attrs.Attribute[Any], cls: type[Any]) -> str:
    kind = attribute.type
    name = kind.__qualname__ if isinstance(kind, type) else kind
    return (
        f"which cannot become the type `{name}` of the field `{attribute.name}` of `{cls.__qualname__}` "
        f"({cls.__module__}); its plugin must use a type of recipes: `str`, `int`, `float`, `bool`, "
        "`Literal`, `tuple`, `Mapping`, an attrs class, a component's base class, or a union of these"
    )


@cache
def _hints(cls: type[Any]) -> Mapping[str, Any]:
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
    """Yield the path and the object of each table and component in a part of a recipe, itself included."""
    if isinstance(part, Mapping):
        for key, value in part.items():
            yield from parts_in(value, (*path, key))
    elif isinstance(part, list | tuple):
        for index, value in enumerate(part):
            yield from parts_in(value, (*path, index))
    elif attrs.has(type(part)):
        yield path, part
        for attribute in attrs.fields(type(part)):
            if attribute.metadata.get("skip"):
                continue
            below = path
            if not attribute.metadata.get("inline", attribute.metadata.get("spread")):
                below = (*path, attribute.metadata.get("key", attribute.name))
            yield from parts_in(getattr(part, attribute.name), below)


def unstructure(part: Any, directory: Path | None = None) -> Any:
    """Return a recipe, or a part of it, as TOML data with every default written out.

    Paths are absolute. With `directory`, the data is for a file there, and paths that are relative in the
    recipe are relative to `directory`. None values are omitted, since TOML cannot represent them.
    """
    if attrs.has(type(part)):
        table: dict[str, Any] = {}
        if isinstance(part, Component):
            table["use"] = part.name
        for attribute in attrs.fields(type(part)):
            value = getattr(part, attribute.name)
            if value is None or attribute.metadata.get("skip"):
                continue
            data = unstructure(value, directory)
            if attribute.metadata.get("inline"):
                table = {**data, **table}
            elif attribute.metadata.get("spread"):
                table |= data
            else:
                table[attribute.metadata.get("key", attribute.name)] = data
        return table
    if isinstance(part, Mapping):
        return {key: unstructure(value, directory) for key, value in part.items()}
    if isinstance(part, tuple):
        return [unstructure(value, directory) for value in part]
    if isinstance(part, WrittenPath):
        return str(part) if directory is None else part.seen_from(directory)
    return part
