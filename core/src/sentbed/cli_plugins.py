"""The command `plugins`: what is installed, and what it offers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from sentbed.registry import Plugins


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plugins(as_json: bool) -> None:
    """List the installed plugins and what they offer."""
    from sentbed.registry import KINDS, load_plugins

    found = load_plugins()
    if as_json:
        click.echo(_plugins_json(found))
        return
    for plugin in found.plugins:
        state = f"cannot be loaded: {plugin.problem}" if plugin.problem else ""
        click.echo(f"{plugin.name} ({plugin.distribution} {plugin.version}) {state}".rstrip())
    for kind in KINDS:
        for name in found.names(kind):
            info = found.find(kind, name)
            click.echo(f"  {kind:<10} {name:<18} {info.summary}")


def _plugins_json(found: Plugins) -> str:
    import json

    import attrs

    return json.dumps(
        {
            "plugins": [attrs.asdict(plugin) for plugin in found.plugins],
            "components": [
                {
                    "kind": info.kind,
                    "name": info.name,
                    "distribution": info.distribution,
                    "version": info.version,
                    "summary": info.summary,
                }
                for info in found.components.values()
            ],
        },
        indent=2,
    )
