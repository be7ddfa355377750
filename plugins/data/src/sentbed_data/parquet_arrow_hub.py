"""Rows of Parquet files, Arrow files and Hugging Face data sets, read with optional libraries."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from sentbed import DataError
from sentbed.helpers import foreign

from sentbed_data.csv_tsv_jsonl import Rows, position

HUB = "hub:"
"""Prefix of a data set that the `datasets` library loads: `hub:ID`."""

PARQUET = ".parquet"
"""Suffix of a Parquet file."""

ARROW = ".arrow"
"""Suffix of a file in Arrow's IPC format, file or stream."""

_USES = {
    "hub": "reading a data set of the hub",
    "parquet": "reading a Parquet file",
    "arrow": "reading an Arrow file, or leaving the texts on disk (`stream`),",
    "sentences": "splitting text into sentences",
    "wordnet": "replacing words by synonyms",
}


def require(package: str, extra: str) -> None:
    """Raise `DataError` if the package of an extra of this distribution is not installed."""
    if importlib.util.find_spec(package) is None:
        raise DataError(
            f"{_USES[extra]} needs the package `{package}`, which is not installed; "
            f"run `pip install 'sentbed-data[{extra}]'`"
        )


def parquet_rows(path: Path, names: Sequence[str]) -> Rows:
    """Yield the number of each row and its wanted values."""
    from pyarrow import parquet

    readable = foreign(partial(DataError, file=path), "the file cannot be read as Parquet", "write it again")
    with readable, parquet.ParquetFile(path) as file:
        found = file.schema_arrow.names
        for name in names:
            position(name, found, path, None)
        yield from _numbered(file.iter_batches(columns=sorted(set(names))), names)


def arrow_rows(path: Path, names: Sequence[str]) -> Rows:
    """Yield the number of each row and its wanted values."""
    import pyarrow

    with readable_arrow(path), pyarrow.OSFile(str(path)) as source:
        schema, batches = arrow_batches(source)
        for name in names:
            position(name, schema.names, path, None)
        yield from _numbered(map(_validated, batches), names)


def arrow_batches(source: Any) -> tuple[Any, Iterator[Any]]:
    """Return schema and record batches of an open file or buffer in either of Arrow's IPC formats."""
    import pyarrow

    if isinstance(source, pyarrow.Buffer):
        source = pyarrow.BufferReader(source)
    head = source.read(6)
    source.seek(0)
    if head == b"ARROW1":
        file = pyarrow.ipc.open_file(source)
        return file.schema, (file.get_batch(i) for i in range(file.num_record_batches))
    stream = pyarrow.ipc.open_stream(source)
    return stream.schema, iter(stream)


def readable_arrow(path: Path) -> AbstractContextManager[None]:
    """Return a context in which whatever pyarrow raises becomes a `DataError` that names the file."""
    return foreign(partial(DataError, file=path), "the file cannot be read as Arrow IPC", "write it again")


def _validated(batch: Any) -> Any:
    batch.validate(full=True)
    return batch


def _numbered(batches: Iterable[Any], names: Sequence[str]) -> Rows:
    numbers = count(1)
    for batch in batches:
        values = [batch.column(name).to_pylist() for name in names]
        for row in zip(*values, strict=True):
            yield next(numbers), row


def is_here(location: str) -> bool:
    """Whether a hub data set is a local directory or already cached."""
    name = location.removeprefix(HUB)
    if Path(name).is_absolute():
        return True
    home = Path(os.environ.get("HF_HOME") or Path("~/.cache/huggingface").expanduser())
    cache = Path(os.environ.get("HF_DATASETS_CACHE") or home / "datasets")
    return (cache / name.replace("/", "___").lower()).is_dir() or (cache / name.replace("/", "___")).is_dir()


def hub_rows(
    location: str,
    names: Sequence[str],
    config: str | None,
    split: str,
    revision: str | None,
    limit: int | None,
) -> Rows:
    """Yield the number of each row in the split and its wanted values."""
    require("datasets", "hub")
    import datasets

    advice = "check the id, `config`, `split`, `revision` and the network"
    with foreign(partial(DataError, file=location), "the data set cannot be loaded", advice):
        table = datasets.load_dataset(location.removeprefix(HUB), name=config, split=split, revision=revision)
    for name in names:
        position(name, table.column_names, location, None)
    if limit is not None:
        table = table.select(range(min(limit, len(table))))
    # By batches: `table[name]` is the whole column in memory before version 4 of `datasets`.
    numbers = count(1)
    for batch in table.select_columns(sorted(set(names))).iter(batch_size=1024):
        for row in zip(*(batch[name] for name in names), strict=True):
            yield next(numbers), row
