"""Files of the items of a run's scores: `items/*.npz` in the run directory, one file per evaluation.

A file has each array once. Its array `index` is a JSON text: the list of the scores with items, each with the
names of its arrays. A score is identified by all its fields except its value.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from sentbed.errors import RunError
from sentbed.helpers import foreign, key_of, write_atomic
from sentbed.protocols import Items, Score
from sentbed.tools import from_plain, plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

DIRECTORY = "items"
"""Subdirectory of a run for the items of its scores."""
ARRAYS = ("x", "y", "groups", "clusters")
"""Fields of `Items` that are arrays."""


def keep_items(run: Path, scores: Iterable[Score]) -> None:
    """Write the items of one evaluation's scores; nothing is written if no score has items.

    If a resumed run repeats an evaluation, its earlier file is replaced.

    Raises:
        RunError: if the disk is full.
    """
    import numpy as np

    arrays: dict[str, NDArray[Any]] = {}
    index = []
    for score in scores:
        if score.items is None:
            continue
        entry = {"score": _key(score), **attrs.asdict(score.items, recurse=False)}
        for field in ARRAYS:
            if entry[field] is None:
                continue
            array = np.ascontiguousarray(entry[field])
            # The name is the hash of the content, as scores may share arrays.
            digest = hashlib.sha256(array.dtype.str.encode() + array.tobytes())
            name = digest.hexdigest()[:16]
            entry[field] = name
            arrays[name] = array
        index.append(entry)
    if not index:
        return

    keys = [entry["score"] for entry in index]
    hash_of_keys = key_of(keys)
    file_name = f"{keys[0]['evaluator']}-{keys[0]['encoder']}"
    file_name = re.sub(r"[^A-Za-z0-9._@+-]", "_", file_name)[:100]
    path = run / DIRECTORY / f"{file_name}-{hash_of_keys[:12]}.npz"
    content = {"index": np.array(json.dumps(index)), **arrays}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **content)
    write_atomic(path, buffer.getvalue())


def attach_items(run: Path, scores: Iterable[Score]) -> tuple[Score, ...]:
    """Return the scores with their items, which are read from the run directory.

    Raises:
        RunError: if a file cannot be read.
    """
    scores = tuple(scores)
    if all(score.items for score in scores):
        return scores

    items: dict[str, Items] = {}
    for path in sorted((run / DIRECTORY).glob("*.npz")):
        remedy = "remove the file to continue without these items"
        with foreign(RunError, f"the items in `{path}` cannot be read", remedy):
            items |= _read_items(path)

    with_items = []
    for score in scores:
        kept = score.items or items.get(json.dumps(_key(score)))
        with_items.append(attrs.evolve(score, items=kept))
    return tuple(with_items)


def _read_items(path: Path) -> dict[str, Items]:
    """Return the items in a file: key of a score (see `_key`), as JSON text -> its items."""
    import numpy as np

    # NumPy leaves a damaged file open, so it does not open the file itself.
    with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as archive:
        arrays = dict(archive)
    items = {}
    for entry in json.loads(str(arrays["index"])):
        key = json.dumps(_key(from_plain(entry.pop("score"), Score)))
        for field in ARRAYS:
            entry[field] = arrays.get(entry[field])
        items[key] = Items(**entry)
    return items


def _key(score: Score) -> Mapping[str, Any]:
    """Return the fields that identify a score within its run, as JSON data: all except its value."""
    record: dict[str, Any] = {**plain(score), "value": None}
    protocol = record["protocol"]
    for side, part in protocol.items():
        protocol[side] = dict(sorted(part.items()))
    return record
