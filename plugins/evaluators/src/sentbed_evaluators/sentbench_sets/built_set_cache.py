"""The cache of the built pair and contrast sets: JSON Lines files, and a file of their hashes, for each task."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
from sentbed import DataError, RunError
from sentbed.helpers import sha256, write_directory
from sentbed_common import CACHE_VARIABLE, cache_root

from sentbed_evaluators.sentbench_sets.building import (
    SPLITS,
    Pair,
    TooFewRowsError,
    Triple,
    build_sets,
)
from sentbed_evaluators.sentbench_sets.rows import Row
from sentbed_evaluators.sentbench_sets.sources import SOURCES, Sizes, SourceFiles

VERSION = 1
"""Version of the construction. It is raised when a change gives other sets for the same source files."""

_CONTRAST = "contrast"
_SUMMARY = "set.json"


@attrs.frozen(eq=False)
class BuiltSets:
    """The pair sets and the contrast set of one task."""

    task: str
    pairs: Mapping[str, Sequence[Pair]]
    """Pairs of each split: `train`, `valid`, `test`."""
    triples: Sequence[Triple]
    files: Mapping[str, str]
    """Name of a split -> SHA-256 of its built file; the name `contrast` stands for the triples."""
    source: str
    """SHA-256 over the files of the source."""
    seed: int
    limit: int | None

    @property
    def pairs_hash(self) -> str:
        """SHA-256 over the pairs of all splits."""
        lines = "".join(f"{split} {self.files[split]}\n" for split in SPLITS)
        return hashlib.sha256(lines.encode()).hexdigest()

    @property
    def paper(self) -> Sizes:
        """The sizes in the paper's Table 1."""
        return SOURCES[self.task].sizes

    def describe(self) -> dict[str, Any]:
        """Return the description of the sets for the protocol of a score."""
        return {
            "builder": VERSION,
            "set_seed": self.seed,
            "text": "as in the file",
            "source": self.source,
        }


def built_sets(
    files: SourceFiles,
    seed: int,
    limit: int | None = None,
) -> BuiltSets:
    """Return a task's sets from the cache. If they are missing or damaged there, build and cache them first.

    Raises:
        DataError: if a file of the source cannot be read; with file and line.
        RunError: if the cache cannot be written.
    """
    source = files.data
    key = hashlib.sha256(
        json.dumps([VERSION, files.task, source, seed, limit]).encode()
    ).hexdigest()
    directory = cache_root() / "sentbench" / f"{files.task}-{key[:16]}"
    load = partial(_load, directory, files.task, source, seed, limit)
    sets = load()
    if sets is not None:
        return sets
    problem = None
    try:
        _build(files, source, seed, limit, directory)
    except RunError as error:
        problem = error

    # Even if building failed, another process may have cached the same sets in the meantime.
    sets = load()
    if sets is not None:
        return sets
    if problem is not None:
        raise RunError(
            f"{problem}, with the environment variable `{CACHE_VARIABLE}`"
        ) from problem
    raise RunError(f"cannot read `{directory}`, which was just written; check the disk")


def _build(
    files: SourceFiles,
    source: str,
    seed: int,
    limit: int | None,
    directory: Path,
) -> None:
    """Build a task's sets from the files of its source, and write them to `directory`.

    Raises `DataError` if the source is malformed, too small, or changed while it was read.
    """
    read = SOURCES[files.task].read
    try:
        pairs, triples = build_sets(
            files.task,
            _rows(read, files.pairs),
            _rows(read, files.contrast),
            seed,
            limit,
        )
    except TooFewRowsError as error:
        advice = "download the whole source"
        if limit is not None:
            advice = f"raise `limit`, which is {limit}"
        raise DataError(f"{error}; {advice}", files.pairs[0]) from error
    if files.data != source:
        raise DataError(
            "a file of the source changed while it was read; run again when it is complete",
            files.all[0],
        )
    write_directory(directory, lambda place: _save(place, pairs, triples))


def _rows(
    read: Callable[[Path], Iterator[Row]], files: Sequence[Path]
) -> Iterator[Row]:
    """Yield the rows of all files."""
    for file in files:
        yield from read(file)


def _save(
    place: Path,
    pairs: Mapping[str, Sequence[Pair]],
    triples: Sequence[Triple],
) -> None:
    """Write pairs, triples and the hashes of their files into the directory `place`."""
    sets: dict[str, Sequence[Any]] = {**pairs, _CONTRAST: triples}
    for name, entries in sets.items():
        with (place / f"{name}.jsonl").open(
            "w", encoding="utf-8", newline="\n"
        ) as stream:
            for entry in entries:
                stream.write(json.dumps(entry, ensure_ascii=False) + "\n")
    files = {name: sha256(place / f"{name}.jsonl") for name in sets}
    (place / _SUMMARY).write_text(json.dumps(files, indent=1) + "\n", encoding="utf-8")


def _load(
    directory: Path,
    task: str,
    source: str,
    seed: int,
    limit: int | None,
) -> BuiltSets | None:
    """Return the sets in a directory, or None if files are missing or do not have their hash."""
    try:
        files = json.loads((directory / _SUMMARY).read_text(encoding="utf-8"))
        sets: dict[str, list[Any]] = {}
        for name in (*SPLITS, _CONTRAST):
            digest = hashlib.sha256()
            entries = sets[name] = []
            with (directory / f"{name}.jsonl").open("rb") as stream:
                for line in stream:
                    digest.update(line)
                    entries.append(tuple(json.loads(line)))
            if digest.hexdigest() != files[name]:
                return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    triples = sets.pop(_CONTRAST)
    return BuiltSets(task, sets, triples, files, source, seed, limit)
