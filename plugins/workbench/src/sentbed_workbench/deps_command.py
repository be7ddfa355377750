"""The command `deps`: print the distributions that a recipe needs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click
from sentbed.tools import echo, set_option

if TYPE_CHECKING:
    from sentbed.tools import Plugins


@click.command()
@click.argument("recipe", type=click.Path())
@set_option("Override a value of the recipe; PATH= takes a key out.")
def deps(recipe: str, overrides: tuple[str, ...]) -> None:
    """Say which distributions RECIPE needs: those of its components and tables, in the installed versions.

    The first lines are a table `[requires]` for the recipe, with which `sentbed check` compares the installed
    versions. The last line installs them with pip. Components that only an axis of a study names are left out.
    """
    from sentbed.tools import components_of, load_plugins, load_recipe

    plugins = load_plugins()
    loaded = load_recipe(recipe, overrides, plugins, check_files=False)
    versions = versions_of(components_of(loaded), plugins)
    for key in loaded.tables:
        offer = plugins.tables[key]
        versions[offer.distribution] = offer.version

    echo("[requires]")
    requirements = []
    for name, version in sorted(versions.items()):
        echo(f'{name} = ">={version}"')
        requirements.append(f"'{name}>={version}'")
    echo("")
    echo(f"pip install {' '.join(requirements)}")


def versions_of(classes: Iterable[type], plugins: Plugins) -> dict[str, str]:
    """Return the distributions that offer some classes: name -> installed version."""
    versions = {}
    for cls in classes:
        origin = plugins.origin(cls)
        if origin is not None:
            versions[origin.distribution] = origin.version
    return versions
