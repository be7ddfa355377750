"""Documentation of what plugins implement and call: `sentbed.protocols`, `.helpers` and `.statistics`."""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

import attrs
from sentbed import helpers, protocols, statistics
from sentbed.errors import DataError
from sentbed_common import field_docs

MODULES = {"protocols": protocols, "helpers": helpers, "statistics": statistics}
"""The modules whose names are shown."""


def protocol_names() -> dict[str, Any]:
    """Return what the modules offer, by name."""
    offered: dict[str, Any] = {}
    for module in MODULES.values():
        for name in sorted(set(dir(module))):
            value = getattr(module, name)
            # Core knows tensors and modules as `Any`.
            if not name.startswith("_") and value is not Any:
                offered.setdefault(name, value)
    return offered


def list_protocols() -> list[tuple[str, str]]:
    """Return each name with the first sentence of its documentation, in the order of the alphabet."""
    rows = []
    for name, value in sorted(protocol_names().items()):
        if inspect.isclass(value) or inspect.isroutine(value):
            first_line, _, _ = (inspect.getdoc(value) or "").partition("\n")
            rows.append((name, first_line))
    return rows


def describe_protocol(name: str) -> str:
    """Return the documentation of a class or function: its signature, fields, methods, and what they are.

    Raises:
        DataError: if there is no such name.
    """
    offered = protocol_names()
    if name not in offered:
        close = get_close_matches(name, offered, n=1)
        suggestion = f"did you mean `{close[0]}`? " if close else ""
        raise DataError(
            f"none of `sentbed.protocols`, `sentbed.helpers` and `sentbed.statistics` has `{name}`; {suggestion}"
            "`sentbed show protocol` lists what they have"
        )
    lines: list[str] = []
    for number, entry in enumerate(entries(name, offered[name])):
        indent = "    " if number else ""
        if number:
            lines.append("")
        lines.append(indent + entry.signature)
        lines += textwrap.indent(entry.documentation, f"{indent}    ").splitlines()
    return "\n".join(lines)


@attrs.frozen
class Entry:
    """A class, function, field or method."""

    signature: str
    """One line, such as `def encode(self, texts: Sequence[str]) -> NDArray[np.float32]`."""
    documentation: str


def entries(name: str, value: Any) -> Iterator[Entry]:
    """Yield what is to be said of a name, and for a class of each of its fields and methods."""
    if inspect.isclass(value):
        yield from _class_entries(name, value)
    elif inspect.isroutine(value):
        yield _routine(name, value, "def")
    else:
        yield Entry(f"{name}: {type(value).__name__}", "")


def _class_entries(name: str, cls: type[Any]) -> Iterator[Entry]:
    bases = ", ".join(base.__name__ for base in cls.__bases__ if base is not object)
    signature = f"class {name}({bases})" if bases else f"class {name}"
    yield Entry(signature, _documentation(cls))
    documented = field_docs(cls)
    for field, declaration in _fields(cls):
        yield Entry(declaration, inspect.cleandoc(documented.get(field, "")))
    for member in _members(cls):
        yield _member(cls, member)


def _fields(cls: type[Any]) -> Iterator[tuple[str, str]]:
    """Yield the name of each field, and the field with its type and default."""
    if attrs.has(cls):
        for attribute in attrs.fields(cls):
            if not attribute.name.startswith("_"):
                signature = f"{attribute.name}: {_type_name(attribute.type)}{_default(attribute)}"
                yield attribute.name, signature
        return
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("sentbed"):
            for name, hint in inspect.get_annotations(base).items():
                if not name.startswith("_"):
                    yield name, f"{name}: {_type_name(hint)}"


def _members(cls: type[Any]) -> Iterator[str]:
    """Yield public methods and properties of a class and its bases of ours, in the order of definition."""
    shown = set()
    for base in cls.__mro__:
        if not base.__module__.startswith("sentbed"):
            continue
        for name, value in vars(base).items():
            if name.startswith("_") or name in shown:
                continue
            is_method = inspect.isroutine(value) or isinstance(
                value, classmethod | staticmethod
            )
            if is_method or isinstance(value, property | functools.cached_property):
                shown.add(name)
                yield name


def _member(cls: type[Any], name: str) -> Entry:
    value = inspect.getattr_static(cls, name)
    if isinstance(value, property | functools.cached_property):
        getter: Any = value.fget if isinstance(value, property) else value.func
        hint = inspect.get_annotations(getter).get("return")
        return Entry(f"property {name} -> {_type_name(hint)}", _documentation(value))
    word = "def"
    if isinstance(value, classmethod | staticmethod):
        word = type(value).__name__
        value = value.__func__
    if getattr(value, "__isabstractmethod__", False):
        word = f"abstract {word}"
    return _routine(name, value, word)


def _routine(name: str, routine: Any, word: str) -> Entry:
    signature = str(inspect.signature(routine)).replace("'", "")
    return Entry(f"{word} {name}{_type_name(signature)}", _documentation(routine))


def _documentation(value: Any) -> str:
    return inspect.getdoc(value) or ""


def _default(attribute: attrs.Attribute[Any]) -> str:
    if attribute.default is attrs.NOTHING:
        return ""
    if isinstance(attribute.default, attrs.Factory):  # type: ignore[arg-type]
        return " = ..."
    if inspect.isroutine(attribute.default):
        return f" = {attribute.default.__name__}"
    if isinstance(attribute.default, frozenset) and attribute.default:
        # Its own text has another order in each process.
        names = ", ".join(map(repr, sorted(attribute.default)))
        return f" = frozenset({{{names}}})"
    return f" = {attribute.default!r}"


def _type_name(hint: Any) -> str:
    """Return a type, or a signature, without the modules of its names."""
    text = hint if isinstance(hint, str) else getattr(hint, "__name__", str(hint))
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", text)
