"""The commands `export` and `import`."""

from __future__ import annotations

import click
from sentbed.tools import set_option, trust_option

_set = set_option(
    "Set a field: FIELD=VALUE; `sentbed show exporter NAME` and `show importer NAME` list the fields."
)


@click.command()
@click.argument("encoder", type=click.Path(file_okay=False))
@click.argument("output", type=click.Path(file_okay=False))
@click.option(
    "--to",
    help="Name of an exporter; `sentbed plugins` lists them. Without it, sentbed's own format is written.",
)
@_set
@trust_option
def export(
    encoder: str,
    output: str,
    to: str | None,
    overrides: tuple[str, ...],
    trust_remote_code: bool,
) -> None:
    """Write the encoder in ENCODER to the new directory OUTPUT, in the format of `--to`.

    Adapters are merged into the weights. Vectors stay the same up to rounding in the backbone's `dtype`.
    """
    from sentbed_interop.export_and_import import export_encoder

    for note in export_encoder(
        encoder, output, to, overrides, trust_remote_code=trust_remote_code
    ):
        click.echo(f"note: {note}", err=True)
    click.echo(output)


@click.command("import")
@click.argument("source", type=click.Path())
@click.argument("output", type=click.Path(file_okay=False))
@click.option(
    "--from",
    "from_",
    required=True,
    help="Name of an importer; `sentbed plugins` lists them.",
)
@_set
def import_(
    source: str,
    output: str,
    from_: str,
    overrides: tuple[str, ...],
) -> None:
    """Make an encoder from SOURCE, a model of another library, in the new directory OUTPUT."""
    from sentbed_interop.export_and_import import import_encoder

    def say(note: str) -> None:
        click.echo(f"note: {note}", err=True)

    import_encoder(source, output, from_, overrides, say=say)
    click.echo(
        f"{output}: try `sentbed encode {output} --input FILE --output vectors.npy`"
    )
