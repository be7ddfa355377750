"""The commands `new`: something to start from."""

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
    from sentbed.show import RECIPE_TEMPLATE

    if path is None:
        click.echo(RECIPE_TEMPLATE, nl=False)
        return
    if Path(path).exists():
        raise SentbedError(f"`{path}` exists already; choose another name")
    from sentbed.paths import write_atomic

    write_atomic(Path(path), RECIPE_TEMPLATE)
    click.echo(f"{path}: try `sentbed check {path}`, then `sentbed run {path}`")
