"""Division of input files into shards; every row is checked on the way."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from sentbed.errors import DataError
from sentbed_common import open_text

from sentbed_corpus.input_files import (
    Shard,
    Source,
    kind_of,
    parquet_file,
)
from sentbed_corpus.input_rows import (
    PARQUET_ROWS,
    json_row,
    parquet_texts,
    require_parquet_columns,
    text_row,
)


def cut(
    path: Path,
    shard_rows: int,
    column: str = "text",
    keep: Sequence[str] = (),
) -> tuple[Source, list[Shard]]:
    """Return a file's description and its shards of `shard_rows` rows; the last shard has the rest.

    All shards have the number 0: the caller numbers them when all files are cut.

    Raises:
        DataError: if the file or a row of it cannot be used, so that this is found before hours of work.
    """
    if kind_of(path) == "parquet":
        digest, rows, starts = _cut_parquet(path, shard_rows, column, keep)
    else:
        digest, rows, starts = _cut_lines(path, shard_rows, column, keep)
    source = Source(str(path), digest, rows)
    shards = []
    for row, start in zip(range(0, rows, shard_rows), starts, strict=True):
        shards.append(Shard(0, source, row, min(shard_rows, rows - row), start))
    return source, shards


def _cut_lines(
    path: Path,
    shard_rows: int,
    column: str,
    keep: Sequence[str],
) -> tuple[str, int, list[int]]:
    """Return the hash of the text, the number of rows, and the byte offset of each shard."""
    is_text = kind_of(path) == "text"
    if is_text and keep:
        raise DataError(
            "a text file has no columns to keep; leave out `--keep`, or use JSONL", path
        )
    digest = hashlib.blake2b(digest_size=16)
    starts: list[int] = []
    rows = position = 0
    with open_text(path) as stream:
        for line in stream:
            if rows % shard_rows == 0:
                starts.append(position)
            digest.update(line)
            rows += 1
            position += len(line)
            if is_text:
                text_row(line, path, rows)
            else:
                json_row(line, path, rows, column, keep)

    return digest.hexdigest(), rows, starts


def _cut_parquet(
    path: Path,
    shard_rows: int,
    column: str,
    keep: Sequence[str],
) -> tuple[str, int, list[int]]:
    """Return the hash of the file, the number of rows, and the offset 0 for each shard."""
    new_hash = partial(hashlib.blake2b, digest_size=16)
    rows = 0
    with parquet_file(path) as file, path.open("rb") as stream:
        require_parquet_columns(file, path, column, keep)
        digest = hashlib.file_digest(stream, new_hash)
        for batch in file.iter_batches(PARQUET_ROWS, columns=[column]):
            texts = parquet_texts(batch.column(column), path, rows + 1, column)
            rows += len(texts)

    shards = math.ceil(rows / shard_rows)
    return digest.hexdigest(), rows, [0] * shards
