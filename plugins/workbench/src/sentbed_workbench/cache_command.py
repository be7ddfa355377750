"""The commands `cache info` and `cache clear`: show and remove the vectors that are cached on this machine."""

from __future__ import annotations

import click
from sentbed.tools import echo


@click.group()
def cache() -> None:
    """Show or remove the vectors that evaluations have cached on this machine."""


@cache.command()
def info() -> None:
    """Show where the vectors are, how many there are, and of which encoders."""
    from collections import defaultdict
    from datetime import datetime

    from sentbed_workbench.cache_contents import contents, totals
    from sentbed_workbench.vector_cache import LIMIT_VARIABLE, VectorCache

    store = VectorCache()
    spaces = contents(store)
    size, vectors = totals(spaces)
    echo(f"place    {store.root}")
    echo(f"size     {_gigabytes(size)}")
    echo(f"limit    {_gigabytes(store.limit)} ({LIMIT_VARIABLE})")

    encoders = "encoders"
    if len(spaces) == 1:
        encoders = "encoder"
    echo(f"vectors  {vectors:,} of {len(spaces)} {encoders}")
    for space in spaces:
        about = defaultdict(lambda: "?", space.about)
        used = f"{datetime.fromtimestamp(space.used):%Y-%m-%d %H:%M}"
        counts = (
            f"{space.vectors:>10,} x {about['width']:<5} {_gigabytes(space.size):>10}"
        )
        settings = f"{about['pooler']:<16} {about['precision']} {about['max_length']:>4} tokens"
        echo(f"  {used}  {counts}  {settings}  {about['model']}")


@cache.command()
@click.option(
    "--older-than",
    type=click.FloatRange(0),
    metavar="DAYS",
    default=0.0,
    help="Only vectors that were not used for so many days.",
)
def clear(older_than: float) -> None:
    """Remove the vectors, or those that were not used for some days."""
    from sentbed_workbench import cache_contents
    from sentbed_workbench.vector_cache import VectorCache

    store = VectorCache()
    removed = cache_contents.clear(store, older_than)
    echo(f"removed {_gigabytes(removed)} from {store.root}")


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.3f} GB"
