"""Source code of a plugin, read without importing it: place of a fault, constants, what it would offer.

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
    found = [
        f"{frame.f_code.co_filename}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).partition(".")[0] == top != "sentbed"
    ]
    return found[-1] if found else file_of(module_of(value))


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
    nodes = [node for statement in next(_bodies(value), ()) for node in ast.walk(statement)]
    hooks: set[object] = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    keywords = (node for node in nodes if isinstance(node, ast.keyword) and node.arg == "specname")
    hooks |= {node.value.value for node in keywords if isinstance(node.value, ast.Constant)}
    classes = (node for node in nodes if isinstance(node, ast.ClassDef))
    keys = (key for node in nodes if isinstance(node, ast.Dict) for key in node.keys)
    lazy = any(isinstance(key, ast.Constant) and key.value == name for key in keys)
    return hook in hooks and (lazy or any(name in _assigned(node.body, "name") for node in classes))


def assigned_text(value: str, name: str) -> str | None:
    """Return the string that a plugin's module, or a parent package, assigns to `name`; None if absent."""
    return next((text for body in _bodies(value) for text in _assigned(body, name)), None)


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
    places = [Path(place) for place in spec.submodule_search_locations or ()]
    modules = [place.joinpath(*inner[:depth]) for depth in range(len(inner), 0, -1) for place in places]
    files = [file for module in modules for file in (module / "__init__.py", module.with_suffix(".py"))]
    for file in (*files, Path(spec.origin or "")):
        if file.is_file():
            try:
                yield ast.parse(file.read_bytes()).body
            except (OSError, SyntaxError, ValueError):  # reported when the module is imported
                yield []


def _assigned(body: Iterable[ast.stmt], name: str) -> Iterator[str]:
    """Yield each string constant that a statement assigns to `name`."""
    for node in body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            named = any(isinstance(target, ast.Name) and target.id == name for target in targets)
            if named and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                yield node.value.value
