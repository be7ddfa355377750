"""The command `explain`: where the values of a recipe come from."""

from __future__ import annotations

import click

from sentbed.cli_common import set_option


@click.command()
@click.argument("recipe", type=click.Path(dir_okay=False))
@click.argument("path", required=False)
@set_option()
@click.option("--cell", metavar="LABELS", help='A cell of the study, by its labels: `--cell "mean, raw"`.')
def explain(recipe: str, path: str | None, overrides: tuple[str, ...], cell: str | None) -> None:
    """Say which file each value of RECIPE comes from; a recipe may extend others.

    With a PATH, such as `stage.nli.loss`, only what is there, with what bases said before and what it means.
    """
    from sentbed.explaining import explain as explain_recipe
    from sentbed.registry import load_plugins

    found = explain_recipe(recipe, overrides, load_plugins(), cell)
    click.echo("\n".join(found.listing() if path is None else found.one(path)))
