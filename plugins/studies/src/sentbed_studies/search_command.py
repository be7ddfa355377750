"""Command `search`: find the best demonstration for the prompt of a recipe."""

from __future__ import annotations

import sys

import click
from sentbed.helpers import Stop
from sentbed.tools import done_elsewhere, echo, set_option


@click.command()
@click.argument("recipe", type=click.Path(dir_okay=False))
@set_option()
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    help="The directory; runs/NAME-search by default.",
)
def search(
    recipe: str,
    overrides: tuple[str, ...],
    out: str | None,
) -> None:
    """Find the best demonstration for RECIPE's prompt, on development data.

    A search that was stopped continues when the same command is run again. The last line printed is the path
    of the report.
    """
    from functools import partial

    from sentbed.tools import load_recipe

    from sentbed_studies.demonstration_search import search as search_recipe

    # Without a handler, SIGTERM would end the process before the search has said where it goes on.
    click.get_current_context().with_resource(Stop().listening())
    loaded = load_recipe(recipe, overrides)
    # If the runtime needs several processes, each of them runs this command.
    code = done_elsewhere(loaded.runtime, sys.argv[1:])
    if code is not None:
        sys.exit(code)

    result = search_recipe(loaded, out, say=partial(echo, err=True))
    echo(result.report)
