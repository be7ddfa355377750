"""Where in a plugin's code a fault or a class is, and what a plugin would offer by its syntax tree.

The source is parsed, not imported: a disabled plugin must not run.
"""

from __future__ import annotations

import ast
import inspect
import sys
import traceback
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path


def place_of(error: BaseException, value: str) -> str | None:
    """Return `file:line` of the innermost frame in the plugin's code, or of a syntax error; else its file."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    top = module_of(value).partition(".")[0]
    place = file_of(module_of(value))
    for frame, line in traceback.walk_tb(error.__traceback__):
        if str(frame.f_globals.get("__name__")).partition(".")[0] == top != "sentbed":
            place = f"{frame.f_code.co_filename}:{line}"
    return place


def defined_at(thing: object) -> str | None:
    """Return `file:line` of a class or function, or None if its source is not available."""
    try:
        return f"{inspect.getsourcefile(thing)}:{inspect.getsourcelines(thing)[1]}"  # type: ignore[arg-type]
    except (OSError, TypeError):
        return None


def file_of(module: str) -> str | None:
    """Return the file of a loaded module, or None."""
    return getattr(sys.modules.get(module), "__file__", None)


def would_offer(value: str, hook: str, name: str) -> bool:
    """Whether the source of a plugin's module implements a hook and has a class, or a key, named `name`."""
    hooks: set[object] = set()
    names: set[object] = set()
    for statement in next(_bodies(value), ()):
        for node in ast.walk(statement):
            if isinstance(node, ast.FunctionDef):
                hooks.add(node.name)
            elif isinstance(node, ast.keyword) and node.arg == "specname":
                hooks.update(_constants([node.value]))
            elif isinstance(node, ast.ClassDef):
                names.update(_assigned(node.body, "name"))
            elif isinstance(node, ast.Dict):
                names.update(_constants(node.keys))
    return hook in hooks and name in names


def assigned_text(value: str, name: str) -> str | None:
    """Return the string that a plugin's module, or a parent package, assigns to `name`; None if absent."""
    for body in _bodies(value):
        for text in _assigned(body, name):
            return text
    return None


def module_of(value: str) -> str:
    """Return the module that the value of an entry point names."""
    return value.partition(":")[0].strip()


def _bodies(value: str) -> Iterator[list[ast.stmt]]:
    """Yield the statements of a plugin's module, then of its parent packages, without importing them."""
    first, *inner = module_of(value).split(".")
    try:
        spec = find_spec(first)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return
    files = []
    for depth in range(len(inner), 0, -1):
        for place in spec.submodule_search_locations or ():
            module = Path(place).joinpath(*inner[:depth])
            files += [module / "__init__.py", module.with_suffix(".py")]
    for file in (*files, Path(spec.origin or "")):
        if file.is_file():
            try:
                yield ast.parse(file.read_bytes()).body
            except (
                OSError,
                SyntaxError,
                ValueError,
            ):  # reported when the module is imported
                yield []


def _constants(nodes: Iterable[ast.expr | None]) -> Iterator[object]:
    return (node.value for node in nodes if isinstance(node, ast.Constant))


def _assigned(body: Iterable[ast.stmt], name: str) -> Iterator[str]:
    """Yield each string constant that a statement assigns to `name`."""
    for node in body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            named = any(
                isinstance(target, ast.Name) and target.id == name for target in targets
            )
            if (
                named
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                yield node.value.value
