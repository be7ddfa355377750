"""Installed plugins by their names, and the components that a hook returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from sentbed.errors import PluginError, suggest
from sentbed.tools import load_plugins


def plugins_named(name: str) -> list[Any]:
    """Return the installed plugin of this name, or all plugins of the distribution of this name.

    Raises:
        PluginError: if there are none.
    """
    plugins = []
    names = set()
    for plugin in load_plugins().plugins:
        names |= {plugin.name, plugin.distribution}
        if name in (plugin.name, plugin.distribution, plugin.key):
            plugins.append(plugin)

    if not plugins:
        raise PluginError(
            f"no installed plugin is called `{name}`; install it with an entry point in the group "
            f"`sentbed`.{suggest(name, sorted(names))}"
        )
    return plugins


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
