"""The items behind a run's scores: `items/*.npz` in its directory, one file an evaluation.

Each file holds its arrays once, and as `index` a JSON list of the scores that have items. A score is found
again by encoder, evaluator, task, metric and protocol.
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
from sentbed.helpers import foreign, read_file, write_atomic
from sentbed.protocols import Items, Score
from sentbed.tools import load_plugins, plain, score_record

if TYPE_CHECKING:
    from numpy.typing import NDArray

from sentbed_report.report_json import read_score
from sentbed_report.statistics.weighted_statistics import function_named, name_of

DIRECTORY = "items"
"""Directory of the items of a run's scores."""
ARRAYS = ("x", "y", "groups", "clusters")
"""Fields of `Items` that are arrays."""
LARGEST_ITEMS = 1 << 30
"""Bytes of the largest file of items that is read."""


def keep_items(run: Path, scores: Iterable[Score]) -> None:
    """Write the items of one evaluation's scores, if any have items.

    In a resumed run, the file of the same evaluation is replaced.

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
        entry["statistic"] = name_of(score.items)
        for field in ARRAYS:
            array = entry[field]
            if array is not None:
                array = np.ascontiguousarray(array)
                # By content: scores may share arrays.
                digest = hashlib.sha256(array.dtype.str.encode() + array.tobytes())
                entry[field] = digest.hexdigest()[:16]
                arrays[entry[field]] = array
        index.append(entry)
    if not index:
        return

    first = index[0]["score"]
    digest = hashlib.sha256(json.dumps([entry["score"] for entry in index]).encode())
    about = re.sub(r"[^A-Za-z0-9._@+-]", "_", f"{first['evaluator']}-{first['encoder']}")[:100]
    file = run / DIRECTORY / f"{about}-{digest.hexdigest()[:12]}.npz"
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **{"index": np.array(json.dumps(index)), **arrays})
    write_atomic(file, buffer.getvalue())


def attach_items(run: Path, scores: Iterable[Score]) -> tuple[Score, ...]:
    """Return the scores with their items from the run directory.

    Raises:
        RunError: if a file cannot be read.
    """
    scores = tuple(scores)
    if all(score.items for score in scores):
        return scores
    items: dict[str, Items] = {}
    for path in sorted((run / DIRECTORY).glob("*.npz")):
        items |= _read(path)
    with_items = []
    for score in scores:
        kept = score.items or items.get(json.dumps(_key(score)))
        with_items.append(attrs.evolve(score, items=kept))
    return tuple(with_items)


def _key(score: Score) -> Mapping[str, Any]:
    """Return the fields that identify a score within its run, as JSON data."""
    record: dict[str, Any] = plain({**score_record(score), "value": None})
    record["protocol"] = {side: dict(sorted(part.items())) for side, part in record["protocol"].items()}
    return record


def _plugin_modules() -> tuple[str, ...]:
    return tuple(info.value for info in load_plugins().plugins if info.status == "loaded")


def _require_numbers(arrays: Mapping[str, NDArray[Any]], path: Path) -> None:
    """Raise `RunError` unless the arrays of a file hold booleans, integers or real numbers."""
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise RunError(
                f"the items in `{path}` cannot be read: the array `{name:.80}` has the type "
                f"`{array.dtype}`, expected numbers; remove the file to go without them"
            )


def _read(path: Path) -> dict[str, Items]:
    import numpy as np

    items = {}
    with foreign(RunError, f"the items in `{path}` cannot be read", "remove the file to go without them"):
        with np.load(io.BytesIO(read_file(path, LARGEST_ITEMS)), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        _require_numbers({name: array for name, array in arrays.items() if name != "index"}, path)
        index = json.loads(str(arrays["index"]))
        modules: tuple[str, ...] = ()
        if any(":" in entry["statistic"] for entry in index):
            modules = _plugin_modules()
        for entry in index:
            key = json.dumps(_key(read_score(entry.pop("score"))))
            entry["statistic"] = function_named(entry["statistic"], modules)
            for field in ARRAYS:
                # Items of earlier versions have no clusters.
                entry[field] = arrays.get(entry.get(field))
            items[key] = Items(**entry)
    return items
