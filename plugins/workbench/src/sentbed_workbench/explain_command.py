"""The command `explain`: print where the values of a recipe come from."""

from __future__ import annotations

import click
from sentbed.tools import set_option


@click.command()
@click.argument("recipe", type=click.Path())
@click.argument("path", required=False)
@set_option()
@click.option(
    "--cell",
    metavar="LABELS",
    help='A cell of the study, by its labels: `--cell "mean, raw"`.',
)
def explain(
    recipe: str,
    path: str | None,
    overrides: tuple[str, ...],
    cell: str | None,
) -> None:
    """Say which file each value of RECIPE comes from; a recipe may extend others.

    RECIPE is a recipe, or a run directory, whose `resolved.toml` is read.

    With a PATH, such as `stage.nli.loss`, show only the values below it; `sentbed show` says what they mean.
    """
    from sentbed.tools import load_plugins

    from sentbed_workbench.value_origins import explain as explain_recipe

    explanation = explain_recipe(recipe, overrides, load_plugins(), cell)
    click.echo("\n".join(explanation.listing(path or "")))
