"""Lazy imports: each public name of a module is imported when it is first used."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions `__getattr__` and `__dir__` (PEP 562) for a module that imports its names lazily.

    Its names are those that it imports under `if TYPE_CHECKING`, with `from MODULE import NAME`, so that type
    checkers and this function read the same list.
    """
    modules: dict[str, str] = {}
    for block in ast.parse(inspect.getsource(sys.modules[module])).body:
        if not isinstance(block, ast.If):
            continue
        for statement in block.body:
            if isinstance(statement, ast.ImportFrom):
                for alias in statement.names:
                    modules[alias.name] = str(statement.module)

    def get_attribute(name: str) -> Any:
        if name == "__all__":
            return sorted(modules)
        if name not in modules:
            raise AttributeError(f"module `{module}` has no attribute `{name}`")
        return getattr(import_module(modules[name]), name)

    return get_attribute, lambda: sorted(modules)
