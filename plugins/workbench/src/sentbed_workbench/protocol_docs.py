"""Documentation of what plugins implement and call: `sentbed.protocols` and `sentbed.helpers`."""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

import attrs
from sentbed import helpers, protocols
from sentbed.errors import DataError
from sentbed_common import field_docs

MODULES = {"protocols": protocols, "helpers": helpers}
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
            f"neither `sentbed.protocols` nor `sentbed.helpers` has `{name}`; {suggestion}"
            "`sentbed show protocol` lists what they have"
        )
    value = offered[name]
    if inspect.isclass(value):
        return "\n".join(_class_lines(name, value))
    if inspect.isroutine(value):
        return "\n".join(_routine_lines(name, value, "def"))
    return f"{name} = {value!r}"


def _class_lines(name: str, cls: type[Any]) -> Iterator[str]:
    bases = [base.__name__ for base in cls.__bases__ if base not in (object,)]
    yield f"class {name}({', '.join(bases)})" if bases else f"class {name}"
    yield from _documentation(cls)
    documented = field_docs(cls)
    for line, field in _fields(cls):
        yield ""
        yield f"    {line}"
        yield from textwrap.indent(inspect.cleandoc(documented.get(field, "")), " " * 8).splitlines()
    for member in _members(cls):
        yield ""
        yield from textwrap.indent("\n".join(_member_lines(cls, member)), " " * 4).splitlines()


def _fields(cls: type[Any]) -> Iterator[tuple[str, str]]:
    """Yield each field with its type and default, and its name."""
    if attrs.has(cls):
        for attribute in attrs.fields(cls):
            yield f"{attribute.name}: {_type_name(attribute.type)}{_default(attribute)}", attribute.name
        return
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("sentbed"):
            for name, hint in inspect.get_annotations(base).items():
                if not name.startswith("_"):
                    yield f"{name}: {_type_name(hint)}", name


def _members(cls: type[Any]) -> Iterator[str]:
    """Yield public methods and properties of a class and its bases of ours, in the order of definition."""
    shown = set()
    for base in cls.__mro__:
        if not base.__module__.startswith("sentbed"):
            continue
        for name, value in vars(base).items():
            if name.startswith("_") or name in shown:
                continue
            is_method = inspect.isroutine(value) or isinstance(value, classmethod | staticmethod)
            if is_method or isinstance(value, property | functools.cached_property):
                shown.add(name)
                yield name


def _member_lines(cls: type[Any], name: str) -> Iterator[str]:
    value = inspect.getattr_static(cls, name)
    if isinstance(value, property | functools.cached_property):
        getter = value.fget if isinstance(value, property) else value.func
        yield f"property {name}{_returned(getter)}"
        yield from _documentation(value)
        return
    word = "def"
    if isinstance(value, classmethod | staticmethod):
        word = type(value).__name__
        value = value.__func__
    if getattr(value, "__isabstractmethod__", False):
        word = f"abstract {word}"
    yield from _routine_lines(name, value, word)


def _routine_lines(name: str, routine: Any, word: str) -> Iterator[str]:
    signature = str(inspect.signature(routine)).replace("'", "")
    yield f"{word} {name}{_type_name(signature)}"
    yield from _documentation(routine)


def _documentation(value: Any) -> list[str]:
    return textwrap.indent(inspect.getdoc(value) or "", " " * 4).splitlines()


def _returned(getter: Any) -> str:
    annotation = getattr(getter, "__annotations__", {}).get("return")
    return f" -> {_type_name(annotation)}" if annotation is not None else ""


def _default(attribute: attrs.Attribute[Any]) -> str:
    if attribute.default is attrs.NOTHING:
        return ""
    if isinstance(attribute.default, attrs.Factory):  # type: ignore[arg-type]
        return " = ..."
    return f" = {attribute.default!r}"


def _type_name(hint: Any) -> str:
    """Return a type, or a signature, without the modules of its names."""
    text = hint if isinstance(hint, str) else getattr(hint, "__name__", str(hint))
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", text)
