"""The command `sentbed plugins`: lists installed plugins, their status, and the components they offer."""

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
    help="Check one plugin, as `sentbed check-plugin NAME` does; that command has more options.",
)
@click.pass_context
def plugins(
    ctx: click.Context,
    as_json: bool,
    check: str | None,
) -> None:
    """List the installed plugins with their status, and the components that they offer.

    A plugin is `loaded`, `disabled` by your configuration, `refused` because it is made for another API of
    sentbed, or `broken`.
    """
    from sentbed._registry.registry import load_plugins

    if check is not None:
        # If `check-plugin` is not installed, the main group says which distribution has it.
        ctx.find_root().command.main(["check-plugin", check], "sentbed")
    installed = load_plugins()
    if as_json:
        echo(_json(installed))
    else:
        echo("\n".join(_text(installed)))


def _text(installed: Plugins) -> Iterator[str]:
    """Yield the lines to print: a table of plugins, a table of components, clashes and warnings."""
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
    """Yield each row as a line of text; the columns are aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(map(str.ljust, row, widths)).rstrip()


def _offers(plugin: PluginInfo) -> str:
    """Return the kinds of a plugin's components, and `hooks` if it implements a lifecycle hook."""
    from sentbed._registry.registry import LIFECYCLE_HOOKS

    more = ["hooks"] if set(plugin.hooks) & set(LIFECYCLE_HOOKS) else []
    return ", ".join([*plugin.kinds, *more]) or "–"


def _claims(plugin: PluginInfo, installed: Plugins) -> Iterator[str]:
    """Yield a sentence for each name that this plugin claims but does not get, since others claim it too."""
    for clash in installed.clashes.values():
        others = []
        for claim in clash.claims:
            if (claim.distribution, claim.plugin) != (plugin.distribution, plugin.name):
                others.append(claim)
        claims_name = len(others) < len(clash.claims)
        is_preferred = clash.preferred is not None and clash.preferred not in others
        if is_preferred or not claims_name:
            continue

        claimants = " and ".join(f"`{_owner(other, plugin)}`" for other in others)
        verb = "does" if len(others) == 1 else "do"
        outcome = "none is used; the last lines say how to choose"
        if clash.preferred is not None:
            outcome = f"that of `{_owner(clash.preferred, plugin)}` is preferred"
        yield f"claims the {clash.kind} `{clash.name}`, as {claimants} {verb}; {outcome}"


def _owner(offer: Offer, plugin: PluginInfo) -> str:
    """Return the distribution of an offer. If it is also that of `plugin`, the offer's plugin follows it."""
    if offer.distribution != plugin.distribution:
        return offer.distribution
    return f"{offer.distribution}:{offer.plugin}"


def component_rows(installed: Plugins) -> list[tuple[str, str, str, str]]:
    """Return one row per component: its kind, its name, its distribution, and a summary.

    If several plugins claim a name and none of them gets it, each claim has a row.
    """
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
    """Return what `sentbed plugins --json` prints."""
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
