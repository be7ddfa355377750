"""What a plugin's hook offers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any


def offered(hook_result: Mapping[str, str] | Iterable[type[Any]]) -> list[type[Any]]:
    """Return the component classes in what a plugin's hook returns, such as `offered(my_plugin.poolers())`.

    A class that the hook returns as a string is imported.
    """
    if not isinstance(hook_result, Mapping):
        return list(hook_result)

    classes = []
    for target in hook_result.values():
        module, _, name = target.partition(":")
        classes.append(getattr(import_module(module), name))
    return classes
