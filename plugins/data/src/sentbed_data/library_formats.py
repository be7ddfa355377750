"""Rows out of Parquet and the Hugging Face hub, by libraries that are optional."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from sentbed import DataError

from sentbed_data.text_formats import Rows, position

HUB = "hub:"
"""Prefix of a data set that the `datasets` library loads: `hub:ID`."""

_EXTRAS = {"datasets": ("hub", "a data set of the hub"), "pyarrow": ("parquet", "a Parquet file")}


def require(package: str) -> None:
    """Raise `DataError` where the optional package `datasets` or `pyarrow` is not installed."""
    if importlib.util.find_spec(package) is None:
        extra, what = _EXTRAS[package]
        raise DataError(
            f"reading {what} needs the package `{package}`, which is not installed; "
            f"run `pip install 'sentbed-data[{extra}]'`"
        )


def parquet_rows(path: Path, names: Sequence[str]) -> Rows:
    """Number of the row, and its wanted values."""
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            found = file.schema_arrow.names
            for name in names:
                position(name, found, path, None)
            numbers = count(1)
            for batch in file.iter_batches(columns=sorted(set(names))):
                values = [batch.column(name).to_pylist() for name in names]
                for row in zip(*values, strict=True):
                    yield next(numbers), row
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"the file cannot be read as Parquet: {error}; write it again", path) from error


def hub_rows(
    location: str,
    names: Sequence[str],
    config: str | None,
    split: str,
    revision: str | None,
    limit: int | None,
) -> Rows:
    """Number of the row in the split, and its wanted values."""
    require("datasets")
    import datasets

    try:
        table = datasets.load_dataset(location.removeprefix(HUB), name=config, split=split, revision=revision)
    except (datasets.exceptions.DatasetsError, OSError, ValueError, RuntimeError) as error:
        raise DataError(
            f"the data set cannot be loaded: {error}; "
            f"check the id, `config`, `split`, `revision` and the network",
            location,
        ) from error
    for name in names:
        position(name, table.column_names, location, None)
    if limit is not None:
        table = table.select(range(min(limit, len(table))))
    yield from enumerate(zip(*(table[name] for name in names), strict=True), 1)
