"""Modules that import their public names when they are first used."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any


def lazy(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a module: what it imports under `if TYPE_CHECKING` is public.

    So type checkers read the same lines, `from A import B, C`, that say where a name is. The module has no
    other public names, and defines the two `if not TYPE_CHECKING`: a wrong name then stays an error.

    Raises:
        ImportError: if the source is not there, or is written otherwise.
    """
    spec = sys.modules[module].__spec__
    source = getattr(spec and spec.loader, "get_source", lambda _: None)(module)
    if spec is None or source is None:
        raise ImportError(
            f"`{module}` needs its source file; install it with its .py files"
        )
    blocks = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
    homes: dict[str, str] = {}
    for node in (
        n
        for block in blocks
        if ast.unparse(block.test) == "TYPE_CHECKING"
        for n in block.body
    ):
        if not isinstance(node, ast.ImportFrom) or node.level or node.module is None:
            raise ImportError(
                f"`{module}`, line {node.lineno}: expected `from MODULE import NAME`"
            )
        homes |= dict.fromkeys((alias.name for alias in node.names), node.module)

    def find(name: str) -> Any:
        if name == "__all__":
            return sorted(homes)
        if name in homes:
            return getattr(import_module(homes[name]), name)
        if not name.startswith("_") and spec.submodule_search_locations:
            with suppress(ModuleNotFoundError):
                return import_module(f"{module}.{name}")
        raise AttributeError(f"module `{module}` has no attribute `{name}`")

    return find, lambda: sorted(homes)
