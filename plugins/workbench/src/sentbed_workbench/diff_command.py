"""The command `diff`: print the differences between two recipes."""

from __future__ import annotations

import sys

import click
from sentbed.tools import FAILED, set_option


@click.command()
@click.argument("a", type=click.Path())
@click.argument("b", type=click.Path())
@set_option("Override a value of both; PATH= takes a key out.")
def diff(a: str, b: str, overrides: tuple[str, ...]) -> None:
    """Print a unified diff of all values of the recipes A and B, with a line for each value.

    A and B are recipes or run directories; defaults and extended recipes are included. The exit code is 0 if the
    values are equal, 1 if they differ, and 2 if a recipe cannot be read.
    """
    from difflib import unified_diff

    from sentbed.tools import load_plugins

    from sentbed_workbench.value_origins import explain, written

    listings = []
    for place in (a, b):
        explanation = explain(place, overrides, load_plugins())
        lines = []
        for path, value in explanation.values():
            lines.append(f"{explanation.spelled(path)} = {written(value)}")
        listings.append(lines)

    differences = list(unified_diff(listings[0], listings[1], a, b, n=0, lineterm=""))
    if differences:
        click.echo("\n".join(differences))
        sys.exit(FAILED)
