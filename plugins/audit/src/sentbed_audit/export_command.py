"""Command `export-mteb`."""

from __future__ import annotations

import click
from sentbed.tools import echo


@click.command("export-mteb")
@click.argument("directory", type=click.Path(file_okay=False))
@click.argument("output", type=click.Path(file_okay=False))
@click.option(
    "--model",
    metavar="OWNER/NAME",
    help="Name in MTEB; `sentbed/` and the directory's by default.",
)
def export_mteb(
    directory: str,
    output: str,
    model: str | None,
) -> None:
    """Write the scores in DIRECTORY as MTEB's result files below OUTPUT.

    DIRECTORY is the directory of a run or of a study; in a study, each cell is a model and each seed a revision.
    Only scores of the evaluator `mteb` are written. `mteb.ResultCache(OUTPUT)` reads them.
    """
    from pathlib import Path

    from sentbed_audit.mteb_export import export_results, reduced

    name = model or f"sentbed/{reduced(Path(directory).resolve().name)}"
    files = export_results(Path(directory), Path(output), name)
    revisions = {file.parent for file in files}
    echo(f"{len(files)} results of {len(revisions)} model revisions")
    echo(output)
