"""The command `explain`: print where the values of a recipe come from."""

from __future__ import annotations

import click
from sentbed.tools import echo, set_option


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

    With a PATH, such as `stage.nli.loss`, show only the values below it, the values of extended recipes that
    they override, and their documentation.
    """
    from sentbed.tools import load_plugins

    from sentbed_workbench.value_origins import explain as explain_recipe

    _require_recipe(recipe)
    explanation = explain_recipe(recipe, overrides, load_plugins(), cell)
    lines = explanation.listing()
    if path is not None:
        lines = explanation.details(path)
    echo("\n".join(lines))


def _require_recipe(recipe: str) -> None:
    """Raise `click.UsageError` if the first argument is the path of a value in a recipe, not a recipe."""
    import os

    import attrs
    from sentbed.tools import MAIN_ENCODER, Recipe

    tables = {MAIN_ENCODER, *(field.name for field in attrs.fields(Recipe))}
    if recipe.partition(".")[0] not in tables or recipe.endswith(".toml"):
        return
    if not os.path.exists(recipe):  # noqa: PTH110 - no error if the name is too long for a file
        raise click.UsageError(
            f"there is no file `{recipe}`; the recipe comes first: `sentbed explain RECIPE {recipe}`"
        )
