"""The command `portable`."""

from __future__ import annotations

from pathlib import Path

import click
from sentbed.tools import echo

SHOWN = 20


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
def portable(directory: Path) -> None:
    """Rewrite the absolute paths in the files of a finished run or study, so that it can be moved.

    They become relative, or begin with `data:` (below SENTBED_DATA), `pkg:` (in a Python package) or `~`. The
    paths that stay are printed with the file that names them.
    """
    from sentbed_workbench.portable_paths import make_portable

    done = make_portable(directory)

    def warn(message: str) -> None:
        echo(f"warning: {message}", err=True)

    for run in done.unfinished:
        warn(f"`{run}` has not finished and is left as it is; finish the study, and say this again")
    for found, file in sorted(done.left.items())[:SHOWN]:
        warn(f"`{found}` is still named in `{file}`; copy what it is beside the recipe, and name it there")
    if (more := len(done.left) - SHOWN) > 0:
        warn(f"{more:,} more paths are still named")
    echo(f"{len(done.changed)} files changed; to move the paths that lead out, move `{done.together}`")
