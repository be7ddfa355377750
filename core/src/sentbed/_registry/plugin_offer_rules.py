"""Rules for the components, commands and recipe tables that plugins offer.

A component must inherit from the base class of its kind (`sentbed.kinds`, `sentbed.protocols`), for example.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import attrs

from sentbed.kinds import KINDS, Kind
from sentbed.protocols.recipe_tables import CORE_TABLES, Lazy

COMMAND, TABLE = "command", "recipe table"

CORE_COMMANDS = frozenset({"check", "plugins", "run"})
"""Names of core's commands. A plugin cannot offer a command with such a name."""


def offer_fault(
    kind: str,
    name: str,
    offered: Any,
) -> str | None:
    """Return which rule an offer or its name breaks, or None. A `Lazy` is not imported."""
    if isinstance(offered, Lazy) or kind == COMMAND:
        fault = _lazy_fault(offered)
    else:
        fault = fault_of(kind, name, offered)
    fault = fault or _name_fault(kind, name)
    if fault is None or kind in KINDS:
        return fault
    return f"the {kind} `{name}`: {fault}"


def _lazy_fault(offered: Any) -> str | None:
    """Return the message for an object that is no `Lazy`, or a `Lazy` with a wrong target; else None."""
    if isinstance(offered, Lazy) and ":" in offered.target:
        return None
    return f'found {offered!r}, expected `Lazy("package.module:name", "What it is.")`'


def _name_fault(kind: str, name: str) -> str | None:
    """Return which rule the name of an offer breaks, or None."""
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        return "its name has to be of small letters, digits and single dashes"
    if kind == TABLE and name in CORE_TABLES:
        return "the name belongs to sentbed's own part of a recipe; choose another"
    if kind == COMMAND and name in CORE_COMMANDS:
        return "the name belongs to a command of sentbed's own; choose another"
    return None


def fault_of(
    kind: str,
    name: str,
    value: Any,
) -> str | None:
    """Return which rule a component's class, a command, or a recipe table's class breaks, or None."""
    if kind in KINDS:
        return _component_fault(KINDS[kind], name, value)
    if kind == COMMAND:
        from click import Command

        if isinstance(value, Command):
            return None
        return f"found {value!r}, expected a `click.Command`"

    from sentbed.protocols import RecipeTable

    is_table = inspect.isclass(value) and issubclass(value, RecipeTable)
    if not (is_table and attrs.has(value)):
        return f"found {value!r}, expected an attrs class below `sentbed.protocols.RecipeTable`"
    if not inspect.getdoc(value):
        return "its class has no docstring; its first line is what users are shown"
    return None


def _component_fault(kind: Kind, name: str, cls: Any) -> str | None:
    """Return which rule the class of a component offered as `name` breaks, or None."""
    label = f"the {kind.name} `{getattr(cls, '__qualname__', repr(cls))}`"
    name_in_class = getattr(cls, "name", None)
    if not (inspect.isclass(cls) and attrs.has(cls) and isinstance(name_in_class, str)):
        return f"{label} must be an attrs class with `name: ClassVar[str]`"
    if cls.__setattr__ is object.__setattr__:
        return f"{label} must be frozen: decorate it with `@attrs.frozen`"
    if name_in_class != name:
        return f"{label} is called `{name_in_class}`, and offered as `{name}`; name it once"
    if fault := promise_fault(kind, cls):
        return f"{label} {fault}"
    if inspect.getdoc(cls) in (None, inspect.getdoc(kind.base)):
        return f"{label} has no docstring; its first line is what users are shown"
    return None


def promise_fault(kind: Kind, cls: type[Any]) -> str | None:
    """Return what an attrs class lacks to be a component of this kind, as a sentence's predicate, or None."""
    base = kind.base.__name__
    if not issubclass(cls, kind.base):
        return f"does not inherit from `sentbed.protocols.{base}`; write `class {cls.__name__}({base})`"
    for name in sorted(cls.__abstractmethods__):
        what = f"no `{name}`"
        if callable(getattr(cls, name)):
            what = f"no method `{name}`"
        return f"has {what}; see `sentbed.protocols.{base}`"
    return None
