"""Rules for what plugins offer: components, commands and recipe tables; see `kinds` and `protocols`."""

from __future__ import annotations

import inspect
import re
from typing import Any

import attrs

from sentbed.kinds import KINDS, Kind
from sentbed.protocols.recipe_tables import CORE_TABLES, Lazy

COMMAND, TABLE = "command", "recipe table"

CORE_COMMANDS = frozenset({"check", "plugins", "run"})
"""Commands of core; plugins cannot offer commands with these names."""


def offer_fault(kind: str, name: str, offered: Any) -> str | None:
    """Return the fault of an offer or of its name, or None; nothing is imported."""
    if isinstance(offered, Lazy) or kind == COMMAND:
        fault = _lazy_fault(offered)
    else:
        fault = fault_of(kind, name, offered)
    fault = fault or _name_fault(kind, name)
    if fault is None or kind in KINDS:
        return fault
    return f"the {kind} `{name}`: {fault}"


def _lazy_fault(offered: Any) -> str | None:
    if isinstance(offered, Lazy) and ":" in offered.target:
        return None
    return f'found {offered!r}, expected `Lazy("package.module:name", "What it is.")`'


def _name_fault(kind: str, name: str) -> str | None:
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        return "its name has to be of small letters, digits and single dashes"
    if kind == TABLE and name in CORE_TABLES:
        return "the name belongs to sentbed's own part of a recipe; choose another"
    if kind == COMMAND and name in CORE_COMMANDS:
        return "the name belongs to a command of sentbed's own; choose another"
    return None


def fault_of(kind: str, name: str, value: Any) -> str | None:
    """Return the first fault of a component, command or recipe table, or None."""
    if kind in KINDS:
        return _component_fault(KINDS[kind], name, value)
    if kind == COMMAND:
        from click import Command

        if isinstance(value, Command):
            return None
        return f"found {value!r}, expected a `click.Command`"
    from sentbed.protocols import RecipeTable

    if not (
        inspect.isclass(value) and issubclass(value, RecipeTable) and attrs.has(value)
    ):
        return f"found {value!r}, expected an attrs class below `sentbed.protocols.RecipeTable`"
    if not inspect.getdoc(value):
        return "its class has no docstring; its first line is what users are shown"
    return None


def _component_fault(kind: Kind, name: str, cls: Any) -> str | None:
    label = getattr(cls, "__qualname__", repr(cls))
    offered_name = getattr(cls, "name", None)
    if not (inspect.isclass(cls) and attrs.has(cls) and isinstance(offered_name, str)):
        return f"the {kind.name} `{label}` must be an attrs class with `name: ClassVar[str]`"
    if cls.__setattr__ is object.__setattr__:
        return f"the {kind.name} `{label}` must be frozen: decorate it with `@attrs.frozen`"
    if offered_name != name:
        return f"the {kind.name} `{label}` is called `{offered_name}`, and offered as `{name}`; name it once"
    if fault := promise_fault(kind, cls):
        return f"the {kind.name} `{label}` {fault}"
    if inspect.getdoc(cls) in (None, inspect.getdoc(kind.base)):
        return f"the {kind.name} `{label}` has no docstring; its first line is what users are shown"
    return None


def promise_fault(kind: Kind, cls: type[Any]) -> str | None:
    """Return how an attrs class violates a kind's protocol, as the predicate of a sentence, or None."""
    base, traits_class = kind.base.__name__, kind.traits.__name__
    if not issubclass(cls, kind.base):
        return f"does not inherit from `sentbed.protocols.{base}`; write `class {cls.__name__}({base})`"
    for name in sorted(cls.__abstractmethods__):
        what = f"no `{name}`"
        if callable(getattr(cls, name)):
            what = f"no method `{name}`"
        return f"has {what}; see `sentbed.protocols.{base}`"
    if not isinstance(cls.traits, property | kind.traits):
        return f"has {cls.traits!r} as `traits`; write `traits = {traits_class}(...)`"
    traits = attrs.fields_dict(kind.traits).keys() - attrs.fields_dict(cls).keys()
    for trait in sorted(traits):
        if hasattr(cls, trait):
            return f"says `{trait}` beside its traits, not in them; write `traits = {traits_class}({trait}=...)`"
    return None
