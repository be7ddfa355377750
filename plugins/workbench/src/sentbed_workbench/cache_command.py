"""The command `cache`: inspect and remove vectors cached on this machine."""

from __future__ import annotations

import click
from sentbed.tools import echo


@click.group()
def cache() -> None:
    """Look at the vectors that evaluations have kept on this machine, or remove them."""


@cache.command()
def info() -> None:
    """Say where the vectors are, how many, and of which encoders."""
    from datetime import datetime

    from sentbed_workbench.cache_contents import converted_weights, held
    from sentbed_workbench.vector_cache import LIMIT_VARIABLE, VectorCache

    store = VectorCache()
    spaces = held(store)
    echo(f"place    {store.root}")
    echo(f"size     {_gigabytes(sum(space.size for space in spaces))}")
    echo(f"limit    {_gigabytes(store.limit)} ({LIMIT_VARIABLE})")
    converted = _gigabytes(converted_weights())
    echo(f"weights  {converted} converted from pickles, beside the limit; `clear` leaves them")
    echo(
        f"vectors  {sum(space.vectors for space in spaces):,} of {len(spaces)} "
        f"encoder{'s' * (len(spaces) != 1)}"
    )
    for space in spaces:
        keys = ("model", "pooler", "width", "precision", "max_length")
        model, pooler, width, precision, length = (space.about.get(key, "?") for key in keys)
        used = f"{datetime.fromtimestamp(space.used):%Y-%m-%d %H:%M}"
        counts = f"{space.vectors:>10,} x {width:<5} {_gigabytes(space.size):>10}"
        echo(f"  {used}  {counts}  {pooler:<16} {precision} {length:>4} tokens  {model}")


@cache.command()
@click.option(
    "--older-than",
    type=click.FloatRange(0),
    metavar="DAYS",
    default=0.0,
    help="Only what was not used since.",
)
def clear(older_than: float) -> None:
    """Remove the vectors, or those that were not used for some days."""
    from sentbed_workbench import cache_contents
    from sentbed_workbench.vector_cache import VectorCache

    store = VectorCache()
    echo(f"removed {_gigabytes(cache_contents.clear(store, older_than))} from {store.root}")


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.3f} GB"
