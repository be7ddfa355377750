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
@click.option("--out", type=click.Path(), help="The new directory; ./sentbed-NAME by default.")
def plugin(kind: str, name: str, out: str | None) -> None:
    """Write a plugin with one component of KIND under NAME: a distribution that can be installed and tested.

    KIND is backbone, intervention, pooler, transform, loss, data, evaluator, runtime, optimizer, schedule,
    tracker, exporter, importer, sampler or executor.
    """
    import shlex

    from sentbed.errors import suggest
    from sentbed.tools import load_plugins

    from sentbed_workbench.scaffold import TEMPLATES, require_name, settings, write_plugin

    if kind not in TEMPLATES:
        raise click.UsageError(f"there is no template for the kind `{kind}`.{suggest(kind, list(TEMPLATES))}")
    require_name(kind, name, load_plugins())
    directory = out or f"sentbed-{name}"
    for file in write_plugin(kind, name, Path(directory)):
        echo(f"{directory}/{file}")
    options = " ".join(f"--set {shlex.quote(setting)}" for setting in settings(kind, name))
    place = shlex.quote(directory)
    test = shlex.quote(f"{directory}[test]")
    echo("\nThen:")
    echo(f"  pip install -c {shlex.quote(f'{directory}/constraints.txt')} -e {test}")
    echo(f"  pytest {place}")
    if TEMPLATES[kind].command:
        echo(f"  {TEMPLATES[kind].command.replace('{name}', name)}")
        return
    recipe = QUICKSTART
    if not Path(QUICKSTART).is_file():
        recipe = "mine.toml"
        echo(f"  sentbed new recipe {recipe}")
    echo(f"  sentbed run {recipe} {options}")
    if TEMPLATES[kind].remark:
        echo(f"\n{TEMPLATES[kind].remark}")
