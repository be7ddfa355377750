"""The commands `new recipe` and `new plugin`: write files to start from."""

from __future__ import annotations

from pathlib import Path

import click
from sentbed.errors import SentbedError


@click.group()
def new() -> None:
    """Start something from a template."""


@new.command()
@click.argument("path", required=False, type=click.Path(dir_okay=False))
def recipe(path: str | None) -> None:
    """Write a commented recipe to PATH, or print it."""
    from sentbed_workbench.recipe_template import RECIPE_TEMPLATE

    if path is None:
        click.echo(RECIPE_TEMPLATE, nl=False)
        return
    if Path(path).exists():
        raise SentbedError(f"`{path}` exists already; choose another name")
    from sentbed.helpers import write_atomic

    write_atomic(Path(path).resolve(), RECIPE_TEMPLATE)
    click.echo(f"{path}: try `sentbed check {path}`, then `sentbed run {path}`")


@new.command()
@click.argument("kind")
@click.argument("name")
@click.option(
    "--out", type=click.Path(), help="The new directory; ./sentbed-NAME by default."
)
def plugin(
    kind: str,
    name: str,
    out: str | None,
) -> None:
    """Write a plugin with one component of KIND called NAME: a distribution that can be installed and tested.

    A pooler is a working example. Of another kind, the methods are to be written.
    """
    import shlex

    from sentbed.errors import suggest
    from sentbed.kinds import KINDS
    from sentbed.tools import load_plugins

    from sentbed_workbench.scaffold import require_name, write_plugin

    if kind not in KINDS:
        raise click.UsageError(
            f"there is no kind of component `{kind}`.{suggest(kind, list(KINDS))}"
        )

    require_name(kind, name, load_plugins())
    directory = out or f"sentbed-{name}"
    for file in write_plugin(kind, name, Path(directory)):
        click.echo(f"{directory}/{file}")

    constraints = shlex.quote(f"{directory}/constraints.txt")
    with_tests = shlex.quote(f"{directory}[test]")
    click.echo("\nThen:")
    click.echo(f"  pip install -c {constraints} -e {with_tests}")
    click.echo(f"  pytest {shlex.quote(directory)}")
