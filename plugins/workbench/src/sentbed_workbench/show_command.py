"""The command `show`: documentation of a component or a recipe table."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from sentbed.tools import Plugins


@click.command()
@click.argument("kind")
@click.argument("name", required=False)
def show(kind: str, name: str | None) -> None:
    """Show a component (`show loss info-nce`): its fields, defaults, units and source, and an example.

    Without a NAME, list the components of a kind (`show loss`), or show a table of a recipe: `show stage`,
    `show validate`, `show checkpoint` ...
    """
    from sentbed.kinds import KINDS
    from sentbed.tools import load_plugins

    from sentbed_workbench.component_docs import describe, describe_table, tables

    plugins = load_plugins()
    choices = [*KINDS]
    described = "kind of component"
    if name is None:
        choices += tables(plugins)
        described = "kind of component or table of a recipe"

    if kind not in choices:
        kinds = [name for name in KINDS if kind in plugins.names(name)]
        advice = f"choose one of {', '.join(choices)}"
        if kinds:
            advice = f"`{kind}` is a {kinds[0]}: `sentbed show {kinds[0]} {kind}`"
        raise click.UsageError(f"there is no {described} `{kind}`; {advice}")

    if name is not None:
        click.echo(describe(plugins.find(kind, name)))
    elif kind in KINDS:
        click.echo("\n".join(_components(kind, plugins)))
    else:
        click.echo(describe_table(kind, plugins))


def _components(kind: str, plugins: Plugins) -> Iterator[str]:
    """Yield a line for each component of a kind, and a line that says how to show one in detail."""
    from sentbed.errors import PluginError
    from sentbed.tools import columns

    rows = []

    for name in plugins.names(kind):
        offer = plugins.find(kind, name)

        try:
            docstring = inspect.getdoc(offer.load()) or ""
            summary = docstring.partition("\n")[0]
        except PluginError as error:
            # The others are listed nevertheless.
            summary = str(error)

        rows.append((name, offer.distribution, summary))
    if not rows:
        yield f"no installed plugin offers any {kind}; see `sentbed plugins`"
        return
    yield from columns(rows)
    yield ""
    yield f"`sentbed show {kind} NAME` explains one"
