"""The command `sentbed plugins`: lists installed plugins, their status, and the components they offer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from sentbed._cli.common import echo

if TYPE_CHECKING:
    from sentbed._registry.plugin_info import PluginInfo
    from sentbed._registry.registry import Plugins


@click.command()
def plugins() -> None:
    """List the installed plugins with their status, and the components that they offer.

    A plugin is `loaded`, `disabled` by `SENTBED_PLUGINS_DISABLE`, or `broken`.
    """
    from sentbed._registry.registry import load_plugins

    echo("\n".join(_text(load_plugins())))


def _text(installed: Plugins) -> Iterator[str]:
    """Yield the lines to print: a table of plugins, a table of components, and clashes."""
    rows = [("PLUGIN", "KINDS", "DISTRIBUTION", "VERSION", "STATUS")]
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
            place = f" @ {plugin.place}" if plugin.place else ""
            yield f"    {' '.join(plugin.reason.split())}{place}"

    if components := component_rows(installed):
        yield ""
        yield from columns([("KIND", "NAME", "DISTRIBUTION", ""), *components])

    if installed.clashes:
        yield ""
    for kind, name in installed.clashes:
        yield f"clash: {installed.clash(kind, name)}"


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield each row as a line of text; the columns are aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(map(str.ljust, row, widths)).rstrip()


def _offers(plugin: PluginInfo) -> str:
    """Return the kinds of a plugin's components, and `hooks` if it implements a lifecycle hook."""
    from sentbed._registry.registry import LIFECYCLE_HOOKS

    more = ["hooks"] if set(plugin.hooks) & set(LIFECYCLE_HOOKS) else []
    return ", ".join([*plugin.kinds, *more]) or "–"


def component_rows(installed: Plugins) -> list[tuple[str, str, str, str]]:
    """Return one row per component: its kind, its name, its distribution, and a summary."""
    from sentbed.kinds import KINDS

    rows = []
    for info in installed.components.values():
        rows.append((info.kind, info.name, info.distribution, info.summary))
    order = list(KINDS)
    return sorted(rows, key=lambda row: (order.index(row[0]), row))
