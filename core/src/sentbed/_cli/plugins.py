"""The command `sentbed plugins`: lists installed plugins, their status, and the components they offer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from sentbed._registry.registry import Plugin, Plugins


@click.command()
def plugins() -> None:
    """List the installed plugins with their status, and the components that they offer.

    A plugin is `loaded`, `disabled` by `SENTBED_PLUGINS_DISABLE`, or `broken`.
    """
    from sentbed._registry.registry import load_plugins

    click.echo("\n".join(_text(load_plugins())))


def _text(installed: Plugins) -> Iterator[str]:
    """Yield the lines to print: a table of plugins, a table of components, and names that several claim."""
    from sentbed.errors import PluginError
    from sentbed.kinds import KINDS

    rows = [("PLUGIN", "OFFERS", "DISTRIBUTION", "VERSION", "STATUS")]
    for plugin in installed.plugins:
        offers = _offers(plugin)
        rows.append(
            (plugin.name, offers, plugin.distribution, plugin.version, plugin.status)
        )
    head, *lines = columns(rows)
    yield head
    for plugin, line in zip(installed.plugins, lines, strict=True):
        yield line
        if plugin.reason is not None:
            yield f"    {plugin.reason}"

    components = [("KIND", "NAME", "DISTRIBUTION")]
    for kind in KINDS:
        for name in installed.names(kind):
            components.append((kind, name, installed.find(kind, name).distribution))
    yield ""
    yield from columns(components)

    for (kind, name), claims in installed.offers.items():
        if len(claims) > 1:
            yield ""
            try:
                installed.find(kind, name)
            except PluginError as error:
                yield str(error)


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield each row as a line of text; the columns are aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(map(str.ljust, row, widths)).rstrip()


def _offers(plugin: Plugin) -> str:
    """Return the kinds of what a plugin offers, and `hooks` if it follows runs."""
    from sentbed._registry.registry import LIFECYCLE_HOOKS

    kinds = list(dict.fromkeys(offer.kind for offer in plugin.offers))
    if set(plugin.hooks) & set(LIFECYCLE_HOOKS):
        kinds.append("hooks")
    return ", ".join(kinds) or "–"
