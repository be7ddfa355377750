"""Source code of plugins: file and line of an error or class."""

from __future__ import annotations

import inspect
import sys
import traceback


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


def module_of(value: str) -> str:
    """Return the module of an entry point with this value (`module:object`)."""
    return value.partition(":")[0].strip()
