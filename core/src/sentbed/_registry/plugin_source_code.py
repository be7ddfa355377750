"""Positions of faults and classes in a plugin's code, and what a plugin that is not imported would offer.

The latter is read from the syntax tree, since the code of a disabled plugin must not run.
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
    """Return `file:line` where a plugin failed; `value` is that of its entry point (`module:object`).

    It is the position of a syntax error, or of the innermost frame in the plugin's package; without either,
    the plugin's file.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    module = module_of(value)
    package = module.partition(".")[0]
    place = file_of(module)
    if package == "sentbed":
        return place
    for frame, line in traceback.walk_tb(error.__traceback__):
        module_of_frame = str(frame.f_globals.get("__name__"))
        if module_of_frame.partition(".")[0] == package:
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
    """Whether the source of a plugin's module implements a hook and mentions a component's name.

    The name is looked for in classes (`name = NAME`) and among the keys of dict literals.
    """
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
    """Return the string that a plugin's module or a parent package assigns to a variable; None if none does."""
    for body in _bodies(value):
        for text in _assigned(body, name):
            return text
    return None


def module_of(value: str) -> str:
    """Return the module in the value of an entry point (`module:object`)."""
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
        if not file.is_file():
            continue
        try:
            body = ast.parse(file.read_bytes()).body
        except (OSError, SyntaxError, ValueError):
            body = []  # the fault is reported when the module is imported
        yield body


def _constants(nodes: Iterable[ast.expr | None]) -> Iterator[object]:
    return (node.value for node in nodes if isinstance(node, ast.Constant))


def _assigned(body: Iterable[ast.stmt], name: str) -> Iterator[str]:
    """Yield each string constant that a statement assigns to the variable `name`."""
    for node in body:
        match node:
            case ast.Assign(targets=targets, value=ast.Constant(value=str(text))):
                pass
            case ast.AnnAssign(target=target, value=ast.Constant(value=str(text))):
                targets = [target]
            case _:
                continue
        for variable in targets:
            if isinstance(variable, ast.Name) and variable.id == name:
                yield text
