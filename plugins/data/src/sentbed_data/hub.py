"""Data sets of the Hugging Face hub, and files in their repositories."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from itertools import count
from pathlib import Path

import attrs
from sentbed import DataError, locate
from sentbed_common import hub_errors

from sentbed_data.csv_tsv_jsonl import Rows, column_index
from sentbed_data.parquet_arrow import require_package

HUB = "hub:"
"""Prefix of the locations `hub:OWNER/NAME` (a data set), `hub:OWNER/NAME/FILE` (a file) and `hub:./DIRECTORY`."""

CONVERTED = "refs/convert/parquet"
"""Branch on which the hub keeps its conversion of a data set to Parquet, with a directory per configuration."""

COMMIT = re.compile("[0-9a-f]{40}")

ID_PARTS = 2
"""Number of parts of an id, separated by slashes; further parts are the path of a file in the repository."""


@attrs.frozen
class HubLocation:
    """The parts of a `hub:` location."""

    name: str
    """Id of the data set, or path of a local directory; `parse` expands the `~` of a known user."""
    file: str | None
    """Path of a file in the repository; None if the location is the data set."""

    @property
    def is_directory(self) -> bool:
        """Whether the location is a local directory with the layout of a data set of the hub."""
        return self.name.startswith((".", "/", "~"))


def parse(location: str) -> HubLocation:
    """Return the parts of a location that begins with `HUB`."""
    name = location.removeprefix(HUB)
    if name.startswith("~"):
        # The `~` of an unknown user stays, and `require_library` reports that there is no such directory.
        with suppress(RuntimeError):
            name = str(Path(name).expanduser())

    place = HubLocation(name, None)
    if place.is_directory:
        return place

    parts = place.name.split("/")
    repository = "/".join(parts[:ID_PARTS])
    file = "/".join(parts[ID_PARTS:])
    return HubLocation(repository, file or None)


def is_data_set(location: str) -> bool:
    """Whether a location names a data set that the library `datasets` reads."""
    return location.startswith(HUB) and parse(location).file is None


def is_file(location: str) -> bool:
    """Whether a location names a file in a repository of the hub."""
    return location.startswith(HUB) and parse(location).file is not None


def is_on_this_machine(location: str, revision: str | None = None) -> bool:
    """Whether a location of the hub needs no download: it is a directory, or in the hub's cache.

    The cache of `datasets` knows commits but no branches and tags: for these, any cached commit will do.
    """
    place = parse(location)
    if place.is_directory:
        return True
    if place.file is not None:
        cache = _cache_directory("HF_HUB_CACHE", "hub")
        return _has_file(
            cache / f"datasets--{place.name.replace('/', '--')}",
            place.file,
            revision or "main",
        )

    name = place.name.replace("/", "___")
    cache = _cache_directory("HF_DATASETS_CACHE", "datasets")
    for directory in (cache / name.lower(), cache / name):
        if revision is not None and COMMIT.fullmatch(revision):
            # The directories above the commit are the configuration and its version.
            if list(directory.glob(f"*/*/{revision}")):
                return True
        elif directory.is_dir():
            return True

    return False


def _cache_directory(variable: str, name: str) -> Path:
    """Return the directory of the hub's cache `name`, which the environment variable `variable` may set."""
    if cache := os.environ.get(variable):
        directory = Path(cache)
    elif home := os.environ.get("HF_HOME"):
        directory = Path(home) / name
    else:
        caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        directory = Path(caches) / "huggingface" / name
    # The `~` of an unknown user stays: nothing is cached there.
    with suppress(RuntimeError):
        directory = directory.expanduser()
    return directory


def _has_file(
    repository: Path,
    file: str,
    revision: str,
) -> bool:
    """Whether a repository's directory in the cache has a file at a branch, tag or commit."""
    commit = revision
    reference = repository / "refs" / revision
    if reference.is_file():
        commit = reference.read_text().strip()
    return (repository / "snapshots" / commit / file).is_file()


def require_library(location: str) -> None:
    """Raise `DataError` if the library that reads a location is missing, or if its directory does not exist."""
    if is_file(location):
        require_package("huggingface_hub", "hub")
        return

    require_package("datasets", "hub")
    if (place := parse(location)).is_directory:
        locate(place.name)


def hub_file(location: str, revision: str | None) -> Path:
    """Return the path of a repository's file in the hub's cache; it is downloaded if it is not there.

    Raises:
        DataError: if there is no such file, or it cannot be downloaded.
    """
    require_package("huggingface_hub", "hub")
    from huggingface_hub import hf_hub_download

    place = parse(location)
    assert place.file is not None
    with _hub_errors(location, revision):
        path = hf_hub_download(
            place.name, place.file, repo_type="dataset", revision=revision
        )

    return Path(path)


def hub_rows(
    location: str,
    names: Sequence[str],
    config: str | None,
    split: str,
    revision: str | None,
    limit: int | None,
) -> Rows:
    """Yield the number of each row in a split of a data set, and the row's values in the columns `names`."""
    require_package("datasets", "hub")
    import datasets

    place = parse(location)
    directory = None
    if revision == CONVERTED:
        # On this branch, each configuration is a directory.
        config, directory = None, config

    with _hub_errors(location, revision):
        table = datasets.load_dataset(
            place.name,
            name=config,
            data_dir=directory,
            split=split,
            revision=revision,
        )

    for name in names:
        column_index(name, table.column_names, location, None)
    if limit is not None:
        table = table.select(range(min(limit, len(table))))

    # Rows are read in batches: before version 4 of `datasets`, `table[name]` is the whole column in memory.
    numbers = count(1)
    for batch in table.select_columns(sorted(set(names))).iter(batch_size=1024):
        for row in zip(*(batch[name] for name in names), strict=True):
            yield next(numbers), row


def _hub_errors(location: str, revision: str | None) -> AbstractContextManager[None]:
    """Turn exceptions of the hub's libraries into a `DataError`."""
    name = parse(location).name
    return hub_errors(partial(DataError, file=location), "dataset", name, revision)
