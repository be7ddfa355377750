"""The commands `new recipe` and `new plugin`: write files to start from."""

from __future__ import annotations

from pathlib import Path

import click
from sentbed.errors import SentbedError
from sentbed.tools import echo

QUICKSTART = "recipes/quickstart.toml"
"""Recipe in a clone of sentbed."""


@click.group()
def new() -> None:
    """Start something from a template."""


@new.command()
@click.argument("path", required=False, type=click.Path(dir_okay=False))
def recipe(path: str | None) -> None:
    """Write a commented recipe to PATH, or print it."""
    from sentbed_workbench.recipe_template import RECIPE_TEMPLATE

    if path is None:
        echo(RECIPE_TEMPLATE, nl=False)
        return
    if Path(path).exists():
        raise SentbedError(f"`{path}` exists already; choose another name")
    from sentbed.helpers import write_atomic

    write_atomic(Path(path).resolve(), RECIPE_TEMPLATE)
    echo(f"{path}: try `sentbed check {path}`, then `sentbed run {path}`")


@new.command()
@click.argument("kind")
@click.argument("name")
@click.option("--encodes", is_flag=True, help="Of a runtime: its engine only encodes.")
@click.option(
    "--out", type=click.Path(), help="The new directory; ./sentbed-NAME by default."
)
def plugin(
    kind: str,
    name: str,
    encodes: bool,
    out: str | None,
) -> None:
    """Write a plugin with one component of KIND called NAME: a distribution that can be installed and tested.

    KIND is backbone, intervention, pooler, transform, similarity, loss, data, evaluator, runtime, optimizer,
    schedule, tracker, exporter, importer or executor.
    """
    import shlex

    from sentbed.errors import suggest
    from sentbed.tools import load_plugins

    from sentbed_workbench.scaffold import (
        ENCODES,
        TEMPLATES,
        require_name,
        settings,
        template_of,
        write_plugin,
    )

    if kind not in TEMPLATES:
        raise click.UsageError(
            f"there is no template for the kind `{kind}`.{suggest(kind, list(TEMPLATES))} Commands, tables of "
            "recipes and report sections have none: see Tools in `docs/plugins/writing.md`"
        )

    template = kind
    if encodes:
        if kind != "runtime":
            raise click.UsageError(
                f"`--encodes` is for a `runtime`, and not for a `{kind}`; leave it out"
            )
        template = ENCODES

    require_name(kind, name, load_plugins())
    directory = out or f"sentbed-{name}"
    for file in write_plugin(template, name, Path(directory)):
        echo(f"{directory}/{file}")

    constraints = shlex.quote(f"{directory}/constraints.txt")
    with_tests = shlex.quote(f"{directory}[test]")
    echo("\nThen:")
    echo(f"  pip install -c {constraints} -e {with_tests}")
    echo(f"  pytest {shlex.quote(directory)}")
    facts = template_of(template)
    if facts.command:
        echo(f"  {facts.command.replace('{name}', name)}")
        return

    options = [f"--set {shlex.quote(setting)}" for setting in settings(template, name)]
    recipe = QUICKSTART
    if not Path(QUICKSTART).is_file():
        recipe = "mine.toml"
        echo(f"  sentbed new recipe {recipe}")
    echo(f"  sentbed run {recipe} {' '.join(options)}")
    if facts.remark:
        echo(f"\n{facts.remark}")
