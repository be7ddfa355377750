"""Lazy modules, which import their public names on first use."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple


class Lazy(NamedTuple):
    """The two functions that a lazy module defines."""

    getattr: Callable[[str], Any]
    dir: Callable[[], list[str]]


def lazy(module: str) -> Lazy:
    """Return `__getattr__` and `__dir__` for a module; its names under `if TYPE_CHECKING` are public.

    Type checkers thus read the same lines that locate a name. They have the form `from A import B, C`.
    """
    loader: Any = sys.modules[module].__loader__
    homes = {
        alias.name: str(node.module)
        for block in ast.parse(loader.get_source(module)).body
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module `{module}` has no attribute `{name}`")
        return getattr(import_module(homes[name]), name)

    return Lazy(find, lambda: sorted(homes))
