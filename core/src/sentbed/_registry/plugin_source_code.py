"""Source code of plugins: file and line of an error or class, and what a plugin that is not loaded would offer.

What a plugin would offer is read from its syntax tree, since the code of a disabled plugin must not run.
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
    """Return `file:line` of the place in a plugin's code where an error was raised.

    `value` is the value of the plugin's entry point (`module:object`). The place is that of the syntax error, or
    the innermost frame in the plugin's package. If there is neither, return the plugin's file; None without one.
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


def defined_at(definition: object) -> str | None:
    """Return `file:line` of a class or function, or None if its source is not available."""
    try:
        file = inspect.getsourcefile(definition)  # type: ignore[arg-type]
        _, line = inspect.getsourcelines(definition)  # type: ignore[arg-type]
    except (OSError, TypeError):
        return None
    return f"{file}:{line}"


def file_of(module: str) -> str | None:
    """Return the file of an imported module; None if it has no file or is not imported."""
    return getattr(sys.modules.get(module), "__file__", None)


def would_offer(
    value: str,
    hook: str,
    name: str,
) -> bool:
    """Whether a plugin would offer a component of this name through this hook, judged by its source code.

    The plugin's module must define the hook. The name must be assigned in a class (`name = NAME`), or be a key
    of a dictionary. `value` is the value of the entry point (`module:object`).
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
    """Return the string that a plugin's module, or else a parent package, assigns to a variable, or None."""
    for body in _bodies(value):
        for text in _assigned(body, name):
            return text
    return None


def module_of(value: str) -> str:
    """Return the module of an entry point with this value (`module:object`)."""
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
        for directory in spec.submodule_search_locations or ():
            module = Path(directory).joinpath(*inner[:depth])
            files += [module / "__init__.py", module.with_suffix(".py")]
    files.append(Path(spec.origin or ""))

    for file in files:
        if not file.is_file():
            continue
        try:
            body = ast.parse(file.read_bytes()).body
        except (OSError, SyntaxError, ValueError):
            body = []  # importing the module will report the fault
        yield body


def _constants(nodes: Iterable[ast.expr | None]) -> Iterator[object]:
    """Yield the values of the expressions that are constants."""
    for node in nodes:
        if isinstance(node, ast.Constant):
            yield node.value


def _assigned(body: Iterable[ast.stmt], name: str) -> Iterator[str]:
    """Yield each string that a statement of a module or class assigns to the variable `name`."""
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
