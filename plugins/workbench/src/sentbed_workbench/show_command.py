"""The command `show`: what a component or a table of a recipe is."""

from __future__ import annotations

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

    Without a NAME, the components of a kind (`show loss`), or a table of a recipe: `show stage`,
    `show validate`, `show checkpoint` ...
    """
    from sentbed.kinds import KINDS
    from sentbed.tools import load_plugins

    from sentbed_workbench.component_docs import describe, describe_table, tables

    found = load_plugins()
    known = [*KINDS, *tables(found)] if name is None else [*KINDS]
    if kind not in known:
        what = "kind of component" + (" or table of a recipe" if name is None else "")
        raise click.UsageError(f"there is no {what} `{kind}`; choose one of {', '.join(known)}")
    if name is not None:
        click.echo(describe(found.find(kind, name)))
    elif kind in KINDS:
        click.echo("\n".join(_components(kind, found)))
    else:
        click.echo(describe_table(kind, found))


def _components(kind: str, found: Plugins) -> Iterator[str]:
    """Yield a line for each component of a kind, and how to see more of one."""
    rows = [(c.name, c.distribution, c.summary) for c in found.components.values() if c.kind == kind]
    for clash in found.clashes.values():
        if clash.preferred is None and clash.kind == kind:
            rows += [(c.name, c.distribution, "clash: not taken") for c in clash.claims]
    if not rows:
        yield f"no installed plugin offers any {kind}; see `sentbed plugins`"
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in sorted(rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    yield from ("", f"`sentbed show {kind} NAME` explains one")
