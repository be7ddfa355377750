"""The command `sentbed data`: the data sets that plugins know, and their files on this machine."""

from __future__ import annotations

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
_digests = click.option(
    "--check", "digests", is_flag=True, help="Compare digests too, beside row counts."
)


@data.command("list")
@_data_dir
@_digests
def data_list(directory: str | None, digests: bool) -> None:
    """List the known data sets: name, purpose and state."""
    from sentbed.tools import load_plugins

    from sentbed_data.collection_files import (
        collections,
        data_base,
        file_states,
        summary,
    )

    base = data_base(directory)
    every_collection = collections(load_plugins())
    width = max(map(len, every_collection), default=0)
    for name, collection in every_collection.items():
        click.echo(f"{name:<{width}}  {collection.summary}")
        state = summary(file_states(collection, base, digests))
        click.echo(f"{'':<{width}}  {state}")


@data.command("where")
@click.argument("name", required=False)
@_data_dir
@_digests
def data_where(
    name: str | None,
    directory: str | None,
    digests: bool,
) -> None:
    """Show path and state of each file of NAME (default: of all known data sets), also of missing files."""
    from sentbed.tools import load_plugins

    from sentbed_data.collection_files import (
        collection_directory,
        collections,
        data_base,
        file_states,
        find_collection,
        summary,
    )

    base = data_base(directory)
    plugins = load_plugins()
    shown = list(collections(plugins).values())
    if name is not None:
        shown = [find_collection(plugins, name)]

    for collection in shown:
        states = file_states(collection, base, digests)
        place = collection_directory(collection, base)
        click.echo(f"{collection.name}: {place}, {summary(states)}")
        for state in states:
            path = state.path.relative_to(place)
            click.echo(f"  {state.problem or 'present':<16} {path}")

        source = collection.source
        if collection.licence:
            source += f" ({collection.licence})"

        click.echo(f"  source: {source}")
        if any(state.is_bad for state in states):
            click.echo(f"  {collection.how_to_get}")


@data.command("get")
@click.argument("name")
@_data_dir
def data_get(name: str, directory: str | None) -> None:
    """Download the missing files of NAME."""
    from sentbed.helpers import DATA_VARIABLE, data_root
    from sentbed.tools import load_plugins

    from sentbed_data.collection_files import data_base, find_collection, summary
    from sentbed_data.get_collection import get_missing_files

    collection = find_collection(load_plugins(), name)
    base = data_base(directory)
    states = get_missing_files(collection, base)
    for state in states:
        if state.problem:
            click.echo(f"{state.path}: {state.problem}", err=True)

    if any(state.is_bad for state in states):
        raise SentbedError(
            f"`{name}` is not as it should be; delete wrong files and run it again, or see {collection.source}"
        )

    root = data_root()
    if root is None or root.absolute() != base.absolute():
        click.echo(
            f"for sentbed to find it: export {DATA_VARIABLE}={base.absolute()}",
            err=True,
        )

    click.echo(f"{name}: {summary(states)}")
