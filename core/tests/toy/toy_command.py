"""The command `greet` of the toy plugin."""

from __future__ import annotations

import click


@click.command()
@click.argument("name")
def greet(name: str) -> None:
    """Greet NAME."""
    click.echo(f"hello {name}")
