"""Listeners of each lifecycle hook: the plugins that have it, in the order of the calls."""

from __future__ import annotations

from collections.abc import Iterator

from sentbed.tools import LIFECYCLE, History, Plugins, columns


def heard(found: Plugins) -> dict[str, list[str]]:
    """Return the plugins that implement each lifecycle hook, in call order."""
    # A run registers it after the plugins, too.
    found.manager.register(History(), name="history")
    calls = {hook: getattr(found.manager.hook, hook).get_hookimpls() for hook in LIFECYCLE}
    return {hook: [one.plugin_name for one in reversed(calls[hook])] for hook in LIFECYCLE}


def lines_of_hooks(found: Plugins) -> Iterator[str]:
    """Yield a line for each lifecycle hook, and the warnings about plugins."""
    yield "In a run the recipe's trackers hear each hook first, the last of them before the others, then:"
    yield ""
    yield from columns([(hook, ", ".join(names) or "–") for hook, names in heard(found).items()])
    yield from ["", *(f"warning: {warning}" for warning in found.warnings)] if found.warnings else []
