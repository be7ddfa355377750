"""The command `schema`: print a JSON Schema of recipes."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option(
    "--output", type=click.Path(dir_okay=False), help="Write it to this file."
)
def schema(output: str | None) -> None:
    """Print a JSON Schema of recipes, for completion and checks in an editor.

    It has the components of the installed plugins: write it again when these change. Taplo and Even Better
    TOML find it if a recipe's first line is `#:schema ./sentbed.schema.json`.
    """
    import json

    from sentbed.helpers import write_atomic
    from sentbed.tools import load_plugins

    from sentbed_workbench.json_schema import recipe_schema

    def warn(message: str) -> None:
        click.echo(f"warning: {message}", err=True)

    json_schema = recipe_schema(load_plugins(), warn)
    text = json.dumps(
        json_schema,
        indent=2,
        ensure_ascii=False,
        allow_nan=False,
    )
    if output is None:
        click.echo(text)
    else:
        write_atomic(Path(output).resolve(), text + "\n")
        click.echo(output)
