"""Rules for component classes, commands and recipe tables; see `kinds` and `protocols`."""

from __future__ import annotations

import inspect
import re
from typing import Any

import attrs

from sentbed.kinds import Kind
from sentbed.protocols.commands import LazyCommand


def fault_of(kind: Kind, cls: Any) -> str | None:
    """Return a message about the first rule that a component breaks, or None."""
    label = getattr(cls, "__qualname__", repr(cls))
    if not (inspect.isclass(cls) and attrs.has(cls) and isinstance(getattr(cls, "name", None), str)):
        return f"the {kind.name} `{label}` must be an attrs class with `name: ClassVar[str]`"
    if cls.__setattr__ is object.__setattr__:
        return f"the {kind.name} `{label}` must be frozen: decorate it with `@attrs.frozen`"
    if fault := promise_fault(kind, cls):
        return f"the {kind.name} `{label}` {fault}"
    if inspect.getdoc(cls) in (None, inspect.getdoc(kind.base)):
        return f"the {kind.name} `{label}` has no docstring; its first line is what users are shown"
    return None


def promise_fault(kind: Kind, cls: type[Any]) -> str | None:
    """Return how an attrs class violates a kind's protocol, as the end of a sentence, or None."""
    base, wanted = kind.base.__name__, kind.traits.__name__
    if not issubclass(cls, kind.base):
        return f"does not inherit from `sentbed.protocols.{base}`; write `class {cls.__name__}({base})`"
    if lacking := next(iter(sorted(cls.__abstractmethods__)), None):
        what = f"no method `{lacking}`" if callable(getattr(cls, lacking)) else f"no `{lacking}`"
        return f"has {what}; see `sentbed.protocols.{base}`"
    if not isinstance(cls.traits, property | kind.traits):
        return f"has {cls.traits!r} as `traits`; write `traits = {wanted}(...)`"
    for word in sorted(attrs.fields_dict(kind.traits).keys() - attrs.fields_dict(cls).keys()):
        if hasattr(cls, word):
            return f"says `{word}` beside its traits, not in them; write `traits = {wanted}({word}=...)`"
    return None


def offer_fault(hook: str, name: str, value: Any) -> str | None:
    """Return the fault of a command or recipe table that a plugin offers, or None."""
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        return "its name has to be of small letters, digits and `-`"
    if hook == "commands":
        if not isinstance(value, LazyCommand) or ":" not in value.target:
            return f'found {value!r}, expected `LazyCommand("package.module:command", "What it does.")`'
        return None
    from sentbed.protocols import RecipeTable

    if not (inspect.isclass(value) and issubclass(value, RecipeTable) and attrs.has(value)):
        return f"found {value!r}, expected an attrs class below `sentbed.protocols.RecipeTable`"
    if not inspect.getdoc(value):
        return "its class has no docstring; its first line is what users are shown"
    return None
