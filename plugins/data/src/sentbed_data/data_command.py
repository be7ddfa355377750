"""The command `sentbed data`: the data sets that plugins know, and their files on this machine."""

from __future__ import annotations

import click
from sentbed.errors import DataError, SentbedError
from sentbed.tools import echo


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
    """List the known data sets: name, state and purpose."""
    from sentbed.tools import load_plugins

    from sentbed_data.find_collections import (
        collections,
        data_base,
        inspect_collection,
    )

    base = data_base(directory)
    every_collection = collections(load_plugins())
    width = max(map(len, every_collection), default=0)
    for name, collection in every_collection.items():
        status = inspect_collection(collection, base, digests)
        echo(f"{name:<{width}}  {status.state:<16} {collection.summary}")
        if status.detail:
            echo(f"{'':<{width}}  {status.detail}")

    if base is None:
        echo("SENTBED_DATA is not set: name the data directory with `--dir`", err=True)


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

    from sentbed_data.find_collections import (
        collections,
        data_base,
        find_collection,
        inspect_collection,
    )

    base = data_base(directory)
    plugins = load_plugins()
    shown = list(collections(plugins).values())
    if name is not None:
        shown = [find_collection(plugins, name)]

    for collection in shown:
        status = inspect_collection(collection, base, digests)
        echo(f"{collection.name}: {status.state}, {status.directory}")
        for item in status.files:
            path = item.path.relative_to(status.directory)
            echo(f"  {item.state:<16} {path}  {item.detail}".rstrip())

        source = collection.source
        if collection.licence:
            source += f" ({collection.licence})"

        echo(f"  source: {source}")
        if status.bad:
            echo(f"  {collection.how_to_get}")


@data.command("get")
@click.argument("name")
@_data_dir
def data_get(name: str, directory: str | None) -> None:
    """Download the missing files of NAME."""
    from sentbed.helpers import DATA_VARIABLE, data_root
    from sentbed.tools import load_plugins

    from sentbed_data.download import DownloadBars
    from sentbed_data.find_collections import UNKNOWN, data_base, find_collection
    from sentbed_data.get_collection import get_missing_files

    collection = find_collection(load_plugins(), name)
    base = data_base(directory)
    if base is None:
        raise DataError(
            f"no data directory is known; set `{DATA_VARIABLE}` to the directory that holds the data, or "
            "name it with `--dir`"
        )
    if str(base).startswith("~"):
        raise DataError(
            f"`{base}` is in the home directory of an unknown user; name another directory"
        )

    with DownloadBars() as bars:
        status = get_missing_files(collection, base, bars)

    for item in status.files:
        if item in status.bad or item.state == UNKNOWN:
            echo(f"{item.state}: {item.path} {item.detail}".rstrip(), err=True)

    if status.bad:
        advice = collection.advice or f"see {collection.source}"
        raise SentbedError(
            f"{len(status.bad)} of {len(status.files)} files of `{name}` are not what they should be; {advice}"
        )

    root = data_root()
    if root is None or root.absolute() != base.absolute():
        echo(
            f"for sentbed to find it: export {DATA_VARIABLE}={base.absolute()}",
            err=True,
        )

    echo(f"{status.directory}: {status.state}")
