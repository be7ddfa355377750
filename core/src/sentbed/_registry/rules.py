"""What the registry asks of a component's class; see `protocols`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import attrs

from sentbed.protocols import LazyCommand, RecipeTable

METHODS: Mapping[str, str] = MappingProxyType(
    {"data": "open", "evaluator": "prepare", "schedule": "factor", "exporter": "write", "importer": "read"}
)
"""The method that a component of a kind must have, where it is not `build`."""

NEEDED: Mapping[str, tuple[str, ...]] = MappingProxyType({"importer": ("recognises",)})
"""Methods that a component of a kind must have beside that."""

ATTRIBUTES: Mapping[str, str] = MappingProxyType({"loss": "needs", "data": "columns", "optimizer": "lr"})
"""What else the class of a component of a kind must say; see `protocols`."""


def fault_of(kind: str, cls: Any) -> str | None:
    """Return which rule a component breaks."""
    methods = (METHODS.get(kind, "build"), *NEEDED.get(kind, ()))
    label = getattr(cls, "__qualname__", repr(cls))
    if not (inspect.isclass(cls) and attrs.has(cls) and isinstance(getattr(cls, "name", None), str)):
        return f"the {kind} `{label}` must be an attrs class with `name: ClassVar[str]`"
    if cls.__setattr__ is object.__setattr__:
        return f"the {kind} `{label}` must be frozen: decorate it with `@attrs.frozen`"
    for method in methods:
        if not callable(getattr(cls, method, None)):
            return f"the {kind} `{label}` has no method `{method}`"
    attribute = ATTRIBUTES.get(kind)
    if attribute and not (hasattr(cls, attribute) or attribute in attrs.fields_dict(cls)):
        return f"the {kind} `{label}` has no `{attribute}`"
    if not inspect.getdoc(cls):
        return f"the {kind} `{label}` has no docstring; its first line is what users are shown"
    return None


def offer_fault(hook: str, name: str, value: Any) -> str | None:
    """Return what is wrong with a command or a recipe's table that a plugin offers."""
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        return "its name has to be of small letters, digits and `-`"
    if hook == "commands":
        if not isinstance(value, LazyCommand) or ":" not in value.target:
            return f'found {value!r}, expected `LazyCommand("package.module:command", "What it does.")`'
        return None
    if not (inspect.isclass(value) and issubclass(value, RecipeTable) and attrs.has(value)):
        return f"found {value!r}, expected an attrs class below `sentbed.protocols.RecipeTable`"
    if not inspect.getdoc(value):
        return "its class has no docstring; its first line is what users are shown"
    return None
