"""The commands `cache info` and `cache clear`: show and remove the vectors that are cached on this machine."""

from __future__ import annotations

import click


@click.group()
def cache() -> None:
    """Show or remove the vectors that evaluations have cached on this machine."""


@cache.command()
def info() -> None:
    """Show where the vectors are, how large they are, and how large they may become."""
    from sentbed_workbench.vector_cache import LIMIT_VARIABLE, VectorCache

    store = VectorCache()
    size = sum(state.st_size for _, state in store.segments())
    click.echo(f"place    {store.root}")
    click.echo(f"size     {size / 1e9:.3f} GB")
    click.echo(f"limit    {store.limit / 1e9:.3f} GB ({LIMIT_VARIABLE})")


@cache.command()
def clear() -> None:
    """Remove the vectors."""
    from sentbed_workbench.vector_cache import VectorCache

    for path, _ in list(VectorCache().segments()):
        path.unlink(missing_ok=True)
