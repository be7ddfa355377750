"""Reader of an encoded corpus, whose vectors stay on disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentbed.errors import DataError

from sentbed_corpus.corpus_encoding import MANIFEST, VECTORS, read_manifest

if TYPE_CHECKING:
    from numpy.typing import NDArray


def open_vectors(directory: str | Path) -> list[NDArray[Any]]:
    """Open the vectors that `sentbed encode --output DIRECTORY` wrote.

    Return an array `(rows, width)` for each shard, in the order of the input. The arrays are mapped into memory.

    Raises:
        DataError: if there are no vectors, or not all of them.
        RunError: if the manifest is damaged.
    """
    import numpy as np

    path = Path(directory)
    manifest = read_manifest(path)
    if manifest is None:
        raise DataError(
            f"`{path}` holds no `{MANIFEST}`; name a directory that `sentbed encode` wrote"
        )

    shards = []
    for file in sorted((path / VECTORS).glob("part-*.npy")):
        shards.append(np.load(file, mmap_mode="r"))

    rows = sum(len(shard) for shard in shards)
    if rows != manifest["rows"]:
        raise DataError(
            f"`{path}` has {rows} of {manifest['rows']} vectors; start the same `sentbed encode` again"
        )
    return shards
