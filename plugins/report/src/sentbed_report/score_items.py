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

from sentbed_report.plugin import DIRECTORY
from sentbed_report.report_json import read_score
from sentbed_report.statistics.weighted_statistics import function_named, name_of

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

    def stored(array: NDArray[Any] | None) -> str | None:
        if array is None:
            return None
        array = np.ascontiguousarray(array)
        name = hashlib.sha256(array.dtype.str.encode() + array.tobytes()).hexdigest()[:16]
        arrays[name] = array
        return name

    index = [
        {
            "score": _key(score),
            **attrs.asdict(score.items, recurse=False),
            "statistic": name_of(score.items),
            **{name: stored(getattr(score.items, name)) for name in ("x", "y", "groups", "clusters")},
        }
        for score in scores
        if score.items is not None
    ]
    if not index:
        return
    first = index[0]["score"]
    digest = hashlib.sha256(json.dumps([entry["score"] for entry in index]).encode()).hexdigest()[:12]
    about = re.sub(r"[^A-Za-z0-9._@+-]", "_", f"{first['evaluator']}-{first['encoder']}")[:100]
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **{"index": np.array(json.dumps(index)), **arrays})
    write_atomic(run / DIRECTORY / f"{about}-{digest}.npz", buffer.getvalue())


def attach_items(run: Path, scores: Iterable[Score]) -> tuple[Score, ...]:
    """Return the scores with their items from the run directory.

    Raises:
        RunError: if a file cannot be read.
    """
    scores = tuple(scores)
    if all(score.items for score in scores):
        return scores
    found: dict[str, Items] = {}
    for path in sorted((run / DIRECTORY).glob("*.npz")):
        found |= _read(path)
    return tuple(
        attrs.evolve(score, items=score.items or found.get(json.dumps(_key(score)))) for score in scores
    )


def _key(score: Score) -> Mapping[str, Any]:
    """Return the fields that identify a score within its run, as JSON data."""
    record: dict[str, Any] = plain({**score_record(score), "value": None})
    return {
        **record,
        "protocol": {side: dict(sorted(part.items())) for side, part in record["protocol"].items()},
    }


def _plugin_modules() -> tuple[str, ...]:
    return tuple(info.value for info in load_plugins().plugins if info.status == "loaded")


def _read(path: Path) -> dict[str, Items]:
    import numpy as np

    with foreign(RunError, f"the items in `{path}` cannot be read", "remove the file to go without them"):
        with np.load(io.BytesIO(read_file(path, LARGEST_ITEMS)), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        index = json.loads(str(arrays["index"]))
        modules = () if all(":" not in entry["statistic"] for entry in index) else _plugin_modules()
        return {
            json.dumps(_key(read_score(entry.pop("score")))): Items(
                **{
                    **entry,
                    "statistic": function_named(entry["statistic"], modules),
                    # Items of earlier versions have no clusters.
                    **{n: arrays.get(entry.get(n)) for n in ("x", "y", "groups", "clusters")},
                }
            )
            for entry in index
        }
