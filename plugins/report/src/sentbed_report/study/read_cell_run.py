"""Reading of a run's directory as a run of a study's cell."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import attrs
from sentbed.errors import DataError, RunError
from sentbed.helpers import foreign, read_json
from sentbed.protocols import Score
from sentbed.tools import MANIFEST, from_plain

from sentbed_report.score_items import attach_items
from sentbed_report.study.study_data import CellRun, CellStatus

REPORT = "report.json"


KEYS = "keys.json"
"""File with everything that determines a run's weights, and with the keys of its evaluations, in order."""

UNREADABLE = (OSError, ValueError, LookupError, TypeError, DataError)
"""Errors of reading an entry of a JSON file that may be missing or damaged."""

_AGAIN = "start the run again; if it has finished, remove its directory first"
"""Advice for a file of a run that is damaged."""

ADDED = "added"
"""Subdirectory of a run for evaluations that were added after the run had finished; each is a run directory."""


def read_run(
    directory: Path,
    cell: str,
    seed: int,
    base: Path,
    evaluations: tuple[str, ...] | None = None,
) -> CellRun:
    """Return the run in `directory` as a run of the cell `cell` under `seed`.

    `base` is the directory to which `CellRun.directory` is relative. `evaluations` are the keys of the
    evaluations whose scores are read, by default those of the run itself. (The key of an evaluation is the hash
    of everything that determines its scores.) An evaluation that has not been made yet has no scores.

    A run without a manifest is waiting. Scores and items are read only if the run has finished.

    Raises:
        RunError: if an existing file cannot be read.
    """
    status = manifest_status(directory)
    if status is None:
        return CellRun(cell, seed, "waiting")
    # `Path.relative_to` goes up to a common parent only from Python 3.12 on.
    place = Path(os.path.relpath(directory, base))
    run = CellRun(cell, seed, cast("CellStatus", status), place)
    report = directory / REPORT
    # A killed run has a manifest, but no report.
    if status == "running" or (status != "finished" and not report.is_file()):
        return run

    with foreign(RunError, f"`{report}` cannot be read", _AGAIN):
        record = read_json(report)
        scores: tuple[Score, ...] = ()
        if status == "finished":
            scores = _scores(directory, record, evaluations)
        return attrs.evolve(
            run,
            error=record.get("error") or "",
            seconds=record.get("seconds"),
            scores=scores,
            record=record,
            evaluations=evaluations,
        )


def evaluation_keys(run: Path) -> list[str]:
    """Return the keys of a run's evaluations, in order; empty if they were not recorded."""
    try:
        return list(map(str, read_json(run / KEYS)["evaluations"]))
    except UNREADABLE:
        return []


def added_run(run: Path, key: str) -> Path:
    """Return the directory of an evaluation that was added, or may be added, to a run."""
    return run / ADDED / key[:10]


def missing_evaluations(run: Path, keys: Iterable[str]) -> list[str]:
    """Return the keys of evaluations that a finished run did not make and that were not added to it."""
    keys_of_run = evaluation_keys(run)
    missing = []
    for key in keys:
        if key in keys_of_run:
            continue
        if manifest_status(added_run(run, key)) != "finished":
            missing.append(key)
    return missing


def manifest_status(run: Path) -> str | None:
    """Return the status in a run's manifest; None if there is no manifest, or it cannot be read."""
    try:
        return str(read_json(run / MANIFEST)["status"])
    except UNREADABLE:
        return None


def _scores(
    directory: Path,
    record: Mapping[str, Any],
    evaluations: Sequence[str] | None,
) -> tuple[Score, ...]:
    """Return the scores of a finished run's evaluations with the keys `evaluations`.

    By default, they are the scores that the run itself made.
    """
    scores = _recorded_scores(directory, record)
    keys = evaluation_keys(directory)
    if evaluations is None or list(evaluations) == keys:
        return scores

    by_key: dict[str, tuple[Score, ...]] = {}
    # Without recorded keys, it is unknown which evaluation made which score, so all must be made again.
    if keys:
        start = 0
        recorded = record["manifest"]["evaluations"]
        for key, evaluation in zip(keys, recorded, strict=True):
            end = start + int(evaluation["scores"])
            by_key[key] = scores[start:end]
            start = end

    selected: list[Score] = []
    for key in evaluations:
        added = added_run(directory, key)
        if key in by_key:
            selected += by_key[key]
        elif manifest_status(added) == "finished":
            selected += _recorded_scores(added, read_json(added / REPORT))
    return tuple(selected)


def _recorded_scores(directory: Path, record: Mapping[str, Any]) -> tuple[Score, ...]:
    """Return the scores in a run's `report.json`, with their items."""
    scores = from_plain(record["scores"], tuple[Score, ...])
    return attach_items(directory, scores)
