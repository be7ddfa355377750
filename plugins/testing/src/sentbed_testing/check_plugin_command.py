"""The command `check-plugin`: it checks a plugin and everything that the plugin offers."""

from __future__ import annotations

import sys

import click
from sentbed.tools import FAILED, echo


@click.command("check-plugin")
@click.argument("name")
def check_plugin(name: str) -> None:
    """Check the plugin NAME against the rules of plugins, and its components against the rules of their kinds.

    NAME is the name of a plugin or of its distribution, as `sentbed plugins` lists them.
    """
    from sentbed_testing.component_under_test import NotRunError
    from sentbed_testing.conformance import ConformanceError
    from sentbed_testing.plugin_checks import plugin_rules

    is_broken = False
    for rule in plugin_rules(name).values():
        try:
            rule()
        except NotRunError as reason:
            echo(f"{rule.id}: not run: {reason}")
        except ConformanceError as error:
            is_broken = True
            echo(f"{rule.id}: {error}", err=True)
        else:
            echo(f"{rule.id}: passed")
    if is_broken:
        sys.exit(FAILED)
