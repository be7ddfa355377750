"""Lookup of an executor by its name; builds its task pool with the options of a command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sentbed import RecipeError, RunError
from sentbed.protocols import Executor
from sentbed.tools import Plugins, component_of
from sentbed_common import TaskPool


def executor_of(
    name: str,
    options: Mapping[str, Any],
    plugins: Plugins,
    say: Callable[[str], Any],
) -> TaskPool:
    """Return the task pool of the executor `name`.

    An option that is None keeps the default of the executor. The pool prints lines with `say`.

    Raises:
        RunError: if there is no such executor, or if it does not have one of the options.
    """
    fields = {}
    for option, value in options.items():
        if value is not None:
            fields[option] = value

    try:
        executor = component_of(Executor, fields, plugins, use=name)
    except RecipeError as error:
        problems = error.problems
        messages = [f"the executor `{name}`: {problem}" for problem in problems]
        raise RunError("; ".join(messages)) from error

    pool: TaskPool = executor.build(say)
    return pool
