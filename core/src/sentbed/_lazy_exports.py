"""Lazy imports: each public name of a module is imported when it is first used."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any


def lazy(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions `__getattr__` and `__dir__` for a module that imports its public names lazily.

    The public names are those that the module imports under `if TYPE_CHECKING`, with `from MODULE import NAME`.
    Type checkers and this function read the same lines. The module assigns the two functions under `if not
    TYPE_CHECKING`, so that type checkers still report unknown names.

    Raises:
        ImportError: if the module's source is missing, or has other statements under `if TYPE_CHECKING`.
    """
    spec = sys.modules[module].__spec__
    source = getattr(spec and spec.loader, "get_source", lambda _: None)(module)
    if spec is None or source is None:
        raise ImportError(
            f"`{module}` needs its source file; install it with its .py files"
        )
    homes: dict[str, str] = {}
    for node in _type_checking_block(source):
        if not isinstance(node, ast.ImportFrom) or node.level or node.module is None:
            raise ImportError(
                f"`{module}`, line {node.lineno}: expected `from MODULE import NAME`"
            )
        for alias in node.names:
            homes[alias.name] = node.module

    def get_attribute(name: str) -> Any:
        if name == "__all__":
            return sorted(homes)
        if name in homes:
            return getattr(import_module(homes[name]), name)
        if not name.startswith("_") and spec.submodule_search_locations:
            with suppress(ModuleNotFoundError):
                return import_module(f"{module}.{name}")
        raise AttributeError(f"module `{module}` has no attribute `{name}`")

    return get_attribute, lambda: sorted(homes)


def _type_checking_block(source: str) -> list[ast.stmt]:
    """Return the statements under `if TYPE_CHECKING` at the top level of a module."""
    statements: list[ast.stmt] = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            statements += node.body
    return statements
