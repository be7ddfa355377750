"""The command `plugins`: installed plugins, their status, and the components they offer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from sentbed._cli.common import echo

if TYPE_CHECKING:
    from sentbed._registry.plugin_info import Offer, PluginInfo
    from sentbed._registry.registry import Plugins


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--check",
    metavar="NAME",
    help="`sentbed check-plugin NAME`, which has more options.",
)
@click.pass_context
def plugins(ctx: click.Context, as_json: bool, check: str | None) -> None:
    """List the installed plugins with their status, and the components that they offer.

    A plugin is `loaded`, `disabled` by your configuration, `refused` because it is made for another API of
    sentbed, or `broken`.
    """
    from sentbed._registry.registry import load_plugins

    if check is not None:
        # The main group says which distribution has the command, if it is not installed.
        ctx.find_root().command.main(["check-plugin", check], "sentbed")
    installed = load_plugins()
    if as_json:
        echo(_json(installed))
    else:
        echo("\n".join(_text(installed)))


def _text(installed: Plugins) -> Iterator[str]:
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
        if plugin.slow:
            yield f"    {plugin.slow}"
        for claim in _claims(plugin, installed):
            yield f"    {claim}"
    if components := component_rows(installed):
        yield ""
        yield from columns([("KIND", "NAME", "DISTRIBUTION", ""), *components])
    if installed.clashes or installed.warnings:
        yield ""
    for clash in installed.clashes.values():
        outcome = "chosen" if clash.preferred else "clash"
        yield f"{outcome}: {clash.message}"
    for warning in installed.warnings:
        yield f"warning: {warning}"


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(map(str.ljust, row, widths)).rstrip()


def _offers(plugin: PluginInfo) -> str:
    from sentbed._registry.registry import LIFECYCLE

    more = ["hooks"] if set(plugin.hooks) & set(LIFECYCLE) else []
    return ", ".join([*plugin.kinds, *more]) or "–"


def _claims(plugin: PluginInfo, installed: Plugins) -> Iterator[str]:
    """Yield the outcome for each name that this plugin and others claim."""
    for clash in installed.clashes.values():
        others = []
        for claim in clash.claims:
            if (claim.distribution, claim.plugin) != (plugin.distribution, plugin.name):
                others.append(claim)
        if len(others) == len(clash.claims) or clash.preferred not in (None, *others):
            continue
        claimants = " and ".join(f"`{_owner(other, plugin)}`" for other in others)
        outcome = "none of them is taken, the last lines say how to choose"
        if clash.preferred is not None:
            outcome = f"that of `{_owner(clash.preferred, plugin)}` is preferred"
        yield f"claims the {clash.kind} `{clash.name}`, as {claimants} does; {outcome}"


def _owner(offer: Offer, plugin: PluginInfo) -> str:
    """Return an offer's distribution, followed by its plugin if `plugin` has the same distribution."""
    if offer.distribution != plugin.distribution:
        return offer.distribution
    return f"{offer.distribution}:{offer.plugin}"


def component_rows(installed: Plugins) -> list[tuple[str, str, str, str]]:
    """Return one row per component, and per claim to a name that no plugin has."""
    from sentbed._registry.plugin_info import ComponentInfo
    from sentbed.kinds import KINDS

    rows = []
    for info in installed.components.values():
        rows.append((info.kind, info.name, info.distribution, info.summary))
    for clash in installed.clashes.values():
        if clash.preferred is not None:
            continue
        for claim in clash.claims:
            if isinstance(claim, ComponentInfo):
                outcome = "clash: not taken"
                rows.append((claim.kind, claim.name, claim.distribution, outcome))
    order = list(KINDS)
    return sorted(rows, key=lambda row: (order.index(row[0]), row))


def _json(installed: Plugins) -> str:
    import json

    from sentbed._run.report_json import fields
    from sentbed._version import API_VERSION

    clashes = []
    for clash in installed.clashes.values():
        entry = fields(clash, "kind name message")
        entry["claims"] = [claim.distribution for claim in clash.claims]
        entry["preferred"] = clash.preferred and clash.preferred.distribution
        clashes.append(entry)

    document = {
        "api": API_VERSION,
        "plugins": [
            fields(
                plugin,
                "name distribution version status reason problem place api kinds hooks slow",
            )
            for plugin in installed.plugins
        ],
        "components": [
            fields(info, "kind name distribution version summary")
            for info in installed.components.values()
        ],
        "clashes": clashes,
        "warnings": installed.warnings,
    }
    return json.dumps(document, indent=2)
