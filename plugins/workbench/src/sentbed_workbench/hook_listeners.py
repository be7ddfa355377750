"""Listeners of the lifecycle hooks, which a run calls: plugins that implement each hook, in order of calls."""

from __future__ import annotations

from collections.abc import Iterator

from sentbed.tools import LIFECYCLE_HOOKS, History, Plugins, columns


def listeners(plugins: Plugins) -> dict[str, list[str]]:
    """Return the names of the plugins that implement each lifecycle hook, in the order of calls."""
    # As in a run, the history is registered after the plugins.
    plugins.manager.register(History(), name="history")
    by_hook: dict[str, list[str]] = {}
    for hook in LIFECYCLE_HOOKS:
        implementations = getattr(plugins.manager.hook, hook).get_hookimpls()
        names = [implementation.plugin_name for implementation in implementations]
        by_hook[hook] = names[::-1]
    return by_hook


def lines_of_hooks(plugins: Plugins) -> Iterator[str]:
    """Yield a line for each lifecycle hook, and a line for each warning about plugins."""
    yield "In a run the recipe's trackers hear each hook first, the last of them before the others, then:"
    yield ""
    rows = []
    for hook, names in listeners(plugins).items():
        rows.append((hook, ", ".join(names) or "–"))
    yield from columns(rows)
    if plugins.warnings:
        yield ""
    for warning in plugins.warnings:
        yield f"warning: {warning}"
