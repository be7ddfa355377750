"""The commands `data` and `cache`: what lies on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from sentbed.errors import SentbedError


@click.group()
def data() -> None:
    """Find, check and download the data sets that the plugins know."""


_data_dir = click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False),
    help="The data directory; SENTBED_DATA by default.",
)
_digests = click.option("--check", "digests", is_flag=True, help="Compare digests too, beside row counts.")


@data.command("list")
@_data_dir
@_digests
def data_list(directory: str | None, digests: bool) -> None:
    """List the known data: name, state, what it is for."""
    from sentbed.known import collections, look
    from sentbed.paths import data_root
    from sentbed.registry import load_plugins

    base = data_root() if directory is None else Path(directory)
    for name, known in collections(load_plugins()).items():
        found = look(known, base, digests)
        click.echo(f"{name:<18} {found.state:<16} {known.summary}")
        if found.detail:
            click.echo(f"{'':<18} {found.detail}")
    if base is None:
        click.echo("SENTBED_DATA is not set: name the data directory with `--dir`", err=True)


@data.command("where")
@click.argument("name", required=False)
@_data_dir
@_digests
def data_where(name: str | None, directory: str | None, digests: bool) -> None:
    """Show where the files of NAME (or of all known data) are or would have to be, and the state of each."""
    from sentbed.known import collections, find, how_to_get, look
    from sentbed.paths import data_root
    from sentbed.registry import load_plugins

    base = data_root() if directory is None else Path(directory)
    loaded = load_plugins()
    for known in collections(loaded).values() if name is None else [find(loaded, name)]:
        found = look(known, base, digests)
        click.echo(f"{known.name}: {found.state}, {found.directory}")
        for item in found.files:
            click.echo(f"  {item.state:<16} {item.path.relative_to(found.directory)}  {item.detail}".rstrip())
        click.echo(f"  source: {known.source}" + (f" ({known.licence})" if known.licence else ""))
        if found.bad:
            click.echo(f"  {how_to_get(known)}")


@data.command("get")
@click.argument("name")
@_data_dir
def data_get(name: str, directory: str | None) -> None:
    """Download what is missing of NAME; stopped, it goes on where it was when started again."""
    from sentbed.download import Bars
    from sentbed.getting import get
    from sentbed.known import UNKNOWN, data_base, find
    from sentbed.paths import DATA_VARIABLE, data_root
    from sentbed.registry import load_plugins

    known = find(load_plugins(), name)
    base = data_base(directory)
    with Bars() as bars:
        found = get(known, base, bars)
    for item in found.files:
        if item in found.bad or item.state == UNKNOWN:
            click.echo(f"{item.state}: {item.path} {item.detail}".rstrip(), err=True)
    if found.bad:
        raise SentbedError(
            f"{len(found.bad)} of {len(found.files)} files of `{name}` are not what they should be; "
            f"{known.advice or f'see {known.source}'}"
        )
    root = data_root()
    if root is None or root.absolute() != base.absolute():
        click.echo(f"for sentbed to find it: export {DATA_VARIABLE}={base.absolute()}", err=True)
    click.echo(f"{found.directory}: {found.state}")


@click.group()
def cache() -> None:
    """Look at the vectors that evaluations have kept on this machine, or remove them."""


@cache.command()
def info() -> None:
    """Say where the vectors are, how many, and of which encoders."""
    from datetime import datetime

    from sentbed.vectors import LIMIT_VARIABLE, VectorStore

    store = VectorStore()
    spaces = store.held()
    click.echo(f"place    {store.root}")
    click.echo(f"size     {_gigabytes(sum(space.size for space in spaces))}")
    click.echo(f"limit    {_gigabytes(store.limit)} ({LIMIT_VARIABLE})")
    click.echo(
        f"vectors  {sum(space.vectors for space in spaces):,} of {len(spaces)} "
        f"encoder{'s' * (len(spaces) != 1)}"
    )
    for space in spaces:
        keys = ("model", "pooler", "width", "precision", "max_length")
        model, pooler, width, precision, length = (space.about.get(key, "?") for key in keys)
        used = f"{datetime.fromtimestamp(space.used):%Y-%m-%d %H:%M}"
        counts = f"{space.vectors:>10,} x {width:<5} {_gigabytes(space.size):>10}"
        click.echo(f"  {used}  {counts}  {pooler:<16} {precision} {length:>4} tokens  {model}")


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
    from sentbed.vectors import VectorStore

    store = VectorStore()
    click.echo(f"removed {_gigabytes(store.clear(older_than))} from {store.root}")


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.3f} GB"
