"""Hooks of sentbed-testing: the command that checks a plugin."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl


@hookimpl
def commands() -> Mapping[str, str]:
    """Return `check-plugin`."""
    return {"check-plugin": "sentbed_testing.check_plugin_command:check_plugin"}
