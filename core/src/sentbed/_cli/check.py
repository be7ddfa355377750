"""The command `sentbed check`: lists every problem of recipes, without loading models or data."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sentbed._cli.common import BAD_INPUT, set_option

if TYPE_CHECKING:
    from sentbed._registry.registry import Plugins
    from sentbed._toml import Document
    from sentbed.protocols import RecipeTable


@click.command()
@click.argument(
    "recipes",
    nargs=-1,
    required=True,
    type=click.Path(),
)
@set_option()
def check(recipes: Sequence[str], overrides: tuple[str, ...]) -> None:
    """List every problem of each of RECIPES, without loading models or data.

    If a directory is given, all recipes below it are checked. A `.toml` file without `schema` is no recipe of
    its own, since other recipes extend it; it is skipped. For a recipe with `[study]`, every cell of the study
    is checked. Cells that cannot work are listed with the reason.
    """
    from sentbed._registry.registry import load_plugins
    from sentbed.errors import RecipeError, reason_of

    plugins = load_plugins()
    bad = False

    for recipe in recipes:
        is_empty = True
        files: Iterable[str] = [recipe]
        if Path(recipe).is_dir():
            files = _files(Path(recipe))

        for file in files:
            try:
                lines = _check(file, overrides, plugins, fragments=file != recipe)
            except RecipeError as error:
                lines, bad = [str(problem) for problem in error.problems], True
            except Exception as error:  # noqa: BLE001 - a plugin's fault must not hide the other recipes
                notes = getattr(error, "__notes__", [])
                lines, bad = ["; ".join([f"{reason_of(error)} @ {file}", *notes])], True

            for line in lines:
                is_empty = False
                click.echo(line)

        if is_empty:
            click.echo(
                f"there is no recipe in `{recipe}`: no `.toml` file with `schema`; name another place"
            )
            bad = True

    if bad:
        sys.exit(BAD_INPUT)


def _files(directory: Path) -> Iterator[str]:
    """Yield all `.toml` files below a directory, except hidden ones and those in hidden directories."""
    for path in sorted(directory.rglob("*.toml")):
        if not any(part.startswith(".") for part in path.relative_to(directory).parts):
            yield str(path)


def _check(
    file: str,
    overrides: Sequence[str],
    plugins: Plugins,
    fragments: bool,
) -> list[str]:
    """Return the lines to print for a recipe.

    A recipe may name a model on a server. The server is then asked whether it has the model. With `fragments`, a
    file without `schema` is skipped: there are no lines.

    Raises:
        RecipeError: if the recipe has problems, or a server reports some. The error has all of them.
    """
    from sentbed._document.overrides import apply_overrides
    from sentbed._recipe.checks import check as check_recipe
    from sentbed._recipe.component_notes import naming_components
    from sentbed._recipe.load import read_document, structure_recipe
    from sentbed._recipe.remarks import remarks_of
    from sentbed.errors import Problem, RecipeError
    from sentbed.protocols import Variants

    document = read_document(file)
    if fragments and "schema" not in document.data:
        return []
    document = apply_overrides(document, overrides)
    base = Path(file).resolve().parent

    table = _table_with_variants(document, plugins)
    problems: list[Problem] = []
    if table is not None:
        variants = table.variants(document, plugins, base)
        counts = f", {len(variants.names)} {variants.noun}, {len(variants.excluded)} excluded"
    else:
        recipe = structure_recipe(document, plugins, base)
        variants = Variants("recipes", (), {}, (recipe,))
        counts = ""
        try:
            with naming_components(recipe):
                check_recipe(recipe, plugins)
        except RecipeError as error:
            # Servers are asked nevertheless, so that all problems are reported at once.
            problems += error.problems

    remarks = list(variants.remarks)
    for problem in remarks_of(variants.recipes):
        if problem.level == "remark":
            remarks.append(str(problem))
        else:
            problems.append(problem)
    if problems:
        raise RecipeError(problems)
    lines = [f"{file}: no problems{counts}"]
    lines += [f"  {name}: {reason}" for name, reason in variants.excluded.items()]
    lines += [f"  {remark}" for remark in remarks]
    return lines


def _table_with_variants(
    document: Document, plugins: Plugins
) -> type[RecipeTable] | None:
    """Return the class of the document's table that makes several recipes of one, such as `[study]`, or None."""
    from sentbed._registry.offers import TABLE

    for key in plugins.names(TABLE):
        if key in document.data:
            cls: type[RecipeTable] = plugins.load(TABLE, key)
            if cls.traits.variants:
                return cls
    return None
