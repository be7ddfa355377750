"""Documentation of sentbed's public interface, for `sentbed show protocol`."""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Iterator
from difflib import get_close_matches
from types import ModuleType
from typing import Any, Protocol

import attrs
import sentbed
import sentbed_common
from sentbed import errors, helpers, protocols, statistics, tools
from sentbed_common import field_docs

MODULES = (sentbed, protocols, helpers, statistics, tools, errors, sentbed_common)
"""Modules whose public names are shown. A name that several modules have is shown for the first one."""

FACADES = ("sentbed", "protocols", "helpers", "statistics", "tools", "sentbed_common")
"""Modules whose public names come from private modules, by the last part of their dotted names."""


@attrs.frozen
class PublicName:
    """A public name of a module."""

    module: str
    """Dotted name of the module."""
    value: Any
    """Object with this name."""


def public_names(module: ModuleType) -> dict[str, Any]:
    """Return the public names of a module with their values. Names that it only imports are left out."""
    names: dict[str, Any] = {}
    for name in sorted(set(dir(module))):
        value = getattr(module, name)
        is_public = not name.startswith("_") and not inspect.ismodule(value)
        if is_public and not _is_imported(value, module.__name__):
            names[name] = value
    return names


def _is_imported(value: Any, module: str) -> bool:
    """Whether a module only imports a class or a function, and does not offer it.

    A facade offers everything that it imports from sentbed.
    """
    home = getattr(value, "__module__", None)
    if not (inspect.isclass(value) or inspect.isroutine(value)) or home is None:
        return False
    if module.rpartition(".")[2] in FACADES:
        return not home.startswith("sentbed")
    return bool(home != module)


@functools.cache
def protocol_names() -> dict[str, PublicName]:
    """Return the public names of all `MODULES`."""
    names: dict[str, PublicName] = {}
    for module in MODULES:
        for name, value in public_names(module).items():
            # In core, `Tensor` and `Module` are `Any`.
            if value is not Any:
                names.setdefault(name, PublicName(module.__name__, value))
    return names


def list_protocols() -> list[tuple[str, str, str]]:
    """Return name, module and first line of documentation of each class and function, sorted by name."""
    rows = []
    for name, public in sorted(protocol_names().items()):
        if inspect.isclass(public.value) or inspect.isroutine(public.value):
            first_line, _, _ = _documentation(public.value).partition("\n")
            rows.append((name, public.module, first_line))
    return rows


def describe_protocol(name: str) -> str:
    """Return the documentation of a public name: signature, fields, methods, and the import statement.

    Raises:
        DataError: if there is no such name.
    """
    names = protocol_names()
    if name not in names:
        close = get_close_matches(name, names, n=1)
        suggestion = f"did you mean `{close[0]}`? " if close else ""
        modules = errors.listed(module.__name__ for module in MODULES)
        raise errors.DataError(
            f"none of {modules} has `{name}`; {suggestion}`sentbed show protocol` lists what they have"
        )

    public = names[name]
    first, *members = entries(name, public.value)
    lines = [first.signature]
    lines += textwrap.indent(first.documentation, " " * 4).splitlines()
    for member in members:
        lines += ["", f"    {member.signature}"]
        lines += textwrap.indent(member.documentation, " " * 8).splitlines()
    lines += ["", f"from {public.module} import {name}"]
    return "\n".join(lines)


@attrs.frozen
class Entry:
    """Signature and documentation of a class, a function, a field or a method."""

    signature: str
    """One line, such as `def encode(self, texts: Sequence[str]) -> NDArray[np.float32]`."""
    documentation: str


def entries(name: str, value: Any) -> Iterator[Entry]:
    """Yield the entry of a name. For a class, yield the entries of its fields and methods, too."""
    if inspect.isclass(value):
        yield from _class_entries(name, value)
    elif inspect.isroutine(value):
        yield _routine(name, value, "def")
    elif isinstance(value, str | int):
        yield Entry(f"{name}: {type(value).__name__} = {value!r}", "")
    else:
        yield Entry(f"{name}: {type(value).__name__}", "")


def _class_entries(name: str, cls: type[Any]) -> Iterator[Entry]:
    """Yield the entries of a class, its fields and its methods."""
    bases = [base.__name__ for base in cls.__bases__ if base is not object]
    signature = f"class {name}"
    if bases:
        signature += f"({', '.join(bases)})"
    yield Entry(signature, _documentation(cls))

    docs = field_docs(cls)
    for field, declaration in _fields(cls):
        yield Entry(declaration, inspect.cleandoc(docs.get(field, "")))

    is_generated = attrs.has(cls) or Protocol in cls.__bases__
    if "__init__" in vars(cls) and not is_generated:
        yield _routine("__init__", cls.__init__, "def")
    for member in _members(cls):
        yield _member(cls, member)


def _fields(cls: type[Any]) -> Iterator[tuple[str, str]]:
    """Yield the name of each field, and its declaration with type and default."""
    if attrs.has(cls):
        for attribute in attrs.fields(cls):
            if attribute.name.startswith("_"):
                continue
            declaration = f"{attribute.name}: {_type_name(attribute.type)}"
            yield attribute.name, declaration + _default(attribute)
        return

    for base in reversed(cls.__mro__):
        if base.__module__.startswith("sentbed"):
            for name, hint in inspect.get_annotations(base).items():
                if not name.startswith("_"):
                    yield name, f"{name}: {_type_name(hint)}"


def _members(cls: type[Any]) -> Iterator[str]:
    """Yield the names of the methods and properties of a class, in the order of their definition.

    Private members are left out unless they are abstract, and so are members of bases outside of sentbed.
    """
    shown = set()
    if attrs.has(cls):
        # A field may replace a property of a base class.
        shown |= {attribute.name for attribute in attrs.fields(cls)}
    for base in cls.__mro__:
        if not base.__module__.startswith("sentbed"):
            continue
        for name, value in vars(base).items():
            is_required = getattr(value, "__isabstractmethod__", False)
            if name in shown or (name.startswith("_") and not is_required):
                continue
            is_method = inspect.isroutine(value) or isinstance(
                value, classmethod | staticmethod
            )
            if is_method or isinstance(value, property | functools.cached_property):
                shown.add(name)
                yield name


def _member(cls: type[Any], name: str) -> Entry:
    """Return the entry of a method or a property."""
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


def _routine(
    name: str,
    routine: Any,
    word: str,
) -> Entry:
    """Return the entry of a function or a method; `word` stands before its name."""
    signature = str(inspect.signature(routine)).replace("'", "")
    return Entry(f"{word} {name}{_type_name(signature)}", _documentation(routine))


def _documentation(value: Any) -> str:
    return inspect.getdoc(value) or ""


def _default(attribute: attrs.Attribute[Any]) -> str:
    """Return ` = DEFAULT` for a field, or an empty text if it has no default."""
    if attribute.default is attrs.NOTHING:
        return ""
    if isinstance(attribute.default, attrs.Factory):  # type: ignore[arg-type]
        return " = ..."
    if inspect.isroutine(attribute.default):
        return f" = {attribute.default.__name__}"
    if isinstance(attribute.default, frozenset) and attribute.default:
        # The order of a set differs between processes.
        names = ", ".join(map(repr, sorted(attribute.default)))
        return f" = frozenset({{{names}}})"
    return f" = {attribute.default!r}"


def _type_name(hint: Any) -> str:
    """Return the text of a type or a signature without the names of modules."""
    text = hint if isinstance(hint, str) else getattr(hint, "__name__", str(hint))
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", text)
