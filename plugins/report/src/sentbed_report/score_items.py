"""Files of the items of a run's scores: `items/*.npz` in the run directory, one file per evaluation.

A file has each array once. Its array `index` is a JSON text: the list of the scores with items, each with the
names of its arrays. A score is identified by all its fields except its value.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import attrs
from sentbed.errors import RunError
from sentbed.helpers import foreign, key_of, write_atomic
from sentbed.protocols import Items, Score
from sentbed.tools import from_plain, plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

from sentbed_report.report_json import printable_data

DIRECTORY = "items"
"""Subdirectory of a run for the items of its scores."""
ARRAYS = ("x", "y", "groups", "clusters")
"""Fields of `Items` that are arrays."""
LARGEST_ITEMS = 1 << 30
"""Maximum size in bytes of each compressed file, and of all arrays of a run in memory together; no more is
read."""
MOST_ARRAYS = 100_000
"""Maximum number of arrays in a file; a file with more is not read."""
_ENTRY = b"PK\x01\x02"
"""Bytes with which every entry in the central directory of a ZIP file begins."""
_WITHOUT = "remove the file to continue without these items"
"""End of error messages on items that cannot be read: what to do."""


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
    remaining = LARGEST_ITEMS
    for path in sorted((run / DIRECTORY).glob("*.npz")):
        with foreign(RunError, f"the items in `{path}` cannot be read", _WITHOUT):
            arrays = _read_arrays(path, remaining)
            items |= _items_of(arrays)
        remaining -= sum(array.nbytes for array in arrays.values())

    with_items = []
    for score in scores:
        kept = score.items or items.get(json.dumps(_key(score)))
        with_items.append(attrs.evolve(score, items=kept))
    return tuple(with_items)


def _key(score: Score) -> Mapping[str, Any]:
    """Return the fields that identify a score within its run, as JSON data: all except its value."""
    record: dict[str, Any] = {**plain(score), "value": None}
    protocol = record["protocol"]
    for side, part in protocol.items():
        protocol[side] = dict(sorted(part.items()))
    return record


def _read_arrays(path: Path, most: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file: the index, which is a text, and arrays of numbers.

    All sizes and types are checked before the first array is read.

    Raises:
        RunError: if the arrays would take more than `most` bytes, or have other types.
        Exception: those of zipfile and NumPy, if the file is damaged.
    """
    import numpy as np

    content = path.read_bytes()
    # This is checked before zipfile reads the central directory, where many entries may name one array.
    if content.count(_ENTRY) > MOST_ARRAYS:
        raise RunError(
            f"the items in `{path}` have more than {MOST_ARRAYS:,} arrays; {_WITHOUT}"
        )
    total = 0
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for entry in archive.infolist():
            # Other compression methods unpack blocks whose size the file determines.
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise RunError(
                    f"the items in `{path}` are not compressed as ZIP files are; {_WITHOUT}"
                )
            total += entry.file_size
            if total > most:
                raise RunError(
                    f"the items in `{path}` would take {total:,} bytes, expected at most {LARGEST_ITEMS:,} "
                    f"in all files of the run; {_WITHOUT}"
                )
        for entry in archive.infolist():
            with archive.open(entry) as stream:
                _require_plain_array(stream, entry, path)
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return dict(arrays)


def _require_plain_array(
    stream: IO[bytes],
    entry: zipfile.ZipInfo,
    path: Path,
) -> None:
    """Raise `RunError` unless the header of an array states its true size and a type that items may have.

    NumPy would allocate the memory that the header states, before it reads the array.
    """
    import numpy as np

    np.lib.format.read_magic(stream)
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    name = entry.filename.removesuffix(".npy")
    kinds = "biuf"
    expected = "numbers"
    if name == "index":
        kinds = "U"
        expected = "a text"
    if dtype.kind not in kinds:
        raise RunError(
            f"the items in `{path}` cannot be read: the array `{name:.80}` has the type `{dtype}`, expected "
            f"{expected}; {_WITHOUT}"
        )
    size = stream.tell() + math.prod(shape) * dtype.itemsize
    if size != entry.file_size:
        raise RunError(
            f"the items in `{path}` cannot be read: the array `{name:.80}` has the shape `{shape!s:.80}`, "
            f"and {entry.file_size:,} bytes; {_WITHOUT}"
        )


def _items_of(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Items]:
    """Return the items in the arrays of a file: key of a score (see `_key`), as JSON text -> its items."""
    # The keys are made printable, to equal the keys of scores that were read from a report.
    index = printable_data(json.loads(str(arrays["index"])))
    items = {}
    for entry in index:
        key = json.dumps(_key(from_plain(entry.pop("score"), Score)))
        for field in ARRAYS:
            entry[field] = arrays.get(entry[field])
        items[key] = Items(**entry)
    return items
