"""What the registry asks of a component's class; see `protocols`."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import attrs

METHODS: Mapping[str, str] = MappingProxyType(
    {"data": "open", "evaluator": "evaluate", "schedule": "factor", "exporter": "write", "importer": "read"}
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
    return _former_fault(cls, f"the {kind} `{label}`")


def _former_fault(cls: type[Any], what: str) -> str | None:
    """Return what is wrong with a component's former names; see `protocols.Component`."""
    words = ("formerly", "renamed")
    # A field of such a name is a field like any other.
    said = {word: getattr(cls, word, None) for word in words if word not in attrs.fields_dict(cls)}
    formerly, renamed = said.get("formerly"), said.get("renamed")
    if formerly is not None and not (isinstance(formerly, tuple) and _all_text(formerly)):
        return f'{what} has `formerly = {formerly!r}`; make it a tuple of names, such as `("old",)`'
    if renamed is not None and not (
        isinstance(renamed, Mapping) and _all_text(renamed) and _all_text(renamed.values())
    ):
        return f"{what} has `renamed = {renamed!r}`; make it a mapping of former names to names of fields"
    return None


def _all_text(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)
