"""Hooks of sentbed-testing: the command that checks a plugin."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl
from sentbed.protocols import Lazy


@hookimpl
def commands() -> Mapping[str, Lazy]:
    """Return `check-plugin`."""
    return {
        "check-plugin": Lazy(
            "sentbed_testing.check_plugin_command:check_plugin",
            "Check a plugin and everything that it offers against their rules.",
        )
    }
