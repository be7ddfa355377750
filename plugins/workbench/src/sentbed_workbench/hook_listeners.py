"""Listeners of each lifecycle hook: the plugins that implement it, in call order."""

from __future__ import annotations

from collections.abc import Iterator

from sentbed.tools import LIFECYCLE, History, Plugins, columns


def listeners(plugins: Plugins) -> dict[str, list[str]]:
    """Return the plugins that implement each lifecycle hook, in call order."""
    # A run, too, registers the history after the plugins.
    plugins.manager.register(History(), name="history")
    by_hook: dict[str, list[str]] = {}
    for hook in LIFECYCLE:
        implementations = getattr(plugins.manager.hook, hook).get_hookimpls()
        by_hook[hook] = [
            implementation.plugin_name for implementation in reversed(implementations)
        ]
    return by_hook


def lines_of_hooks(plugins: Plugins) -> Iterator[str]:
    """Yield a line for each lifecycle hook, and the warnings about plugins."""
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
