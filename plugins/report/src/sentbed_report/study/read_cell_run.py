"""Reading of a run directory as one run of a study."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast, get_args

from sentbed.errors import DataError, RunError
from sentbed.helpers import foreign, read_json
from sentbed.protocols import Score
from sentbed.tools import MANIFEST

from sentbed_report.report_json import read_record
from sentbed_report.run_cost import RecordedCost, recorded_cost
from sentbed_report.run_results import REPORT, read_results
from sentbed_report.score_items import attach_items
from sentbed_report.study.study_data import CellRun, CellStatus

RANKING = "search.json"
"""What the search for a demonstration has found, in a run that had one before it."""


KEYS = "keys.json"
"""What decides the weights of a cell's run, and the keys of its evaluations in their order."""

ADDED = "added"
"""Directory of the evaluations that were added to a run after it had finished, each a run of its own."""


def read_run(
    directory: Path, cell: str, seed: int, base: Path, evaluations: Sequence[str] | None = None
) -> CellRun:
    """Return the run in `directory` as cell `cell` with `seed`; its path is relative to `base`.

    `evaluations` are the keys of those whose scores are wanted, by default those that the run itself has
    made; one that has not been made yet gives no scores.

    A run without a manifest is one that waits. Scores, and the items behind them, are read of a finished run
    only: asking how far a study is costs two small files a run.

    Raises:
        RunError: if an existing file cannot be read.
    """
    place = Path(os.path.relpath(directory, base))
    status = _status(directory)
    record = {} if status in ("waiting", "running") else _json(directory / REPORT)
    searched = _json(directory / RANKING)
    if searched:
        record = {**record, "ranking": searched.get("ranking")}
    scores: tuple[Score, ...] = ()
    if status == "finished" and record.get("scores"):
        scores = _scores(directory, record, evaluations)
    error = record.get("error")
    seconds = [
        one for one in (record.get("seconds"), searched.get("seconds")) if isinstance(one, int | float)
    ]
    return CellRun(
        cell,
        seed,
        status,
        place if status != "waiting" else None,
        error if isinstance(error, str) else "",
        float(sum(seconds)) if seconds else None,
        scores,
        record,
        _cost(directory / REPORT, record),
        None if evaluations is None else tuple(evaluations),
    )


def evaluation_keys(run: Path) -> list[str]:
    """Return the keys of the evaluations that a run of a study makes, in their order; none if unknown."""
    try:
        return [str(key) for key in read_json(run / KEYS)["evaluations"]]
    except (OSError, ValueError, LookupError, TypeError, DataError):
        return []


def made_evaluations(run: Path) -> list[str]:
    """Return the keys of the evaluations that a finished run has made or been given since."""
    keys = evaluation_keys(run)
    for added in sorted((run / ADDED).glob("*")):
        if manifest_status(added) == "finished":
            keys += evaluation_keys(added)
    return keys


def evaluation_contents(run: Path) -> dict[str, Any]:
    """Return what the keys of a run's own and added evaluations are hashes of, as far as it is known."""
    contents: dict[str, Any] = {}
    for directory in (run, *sorted((run / ADDED).glob("*"))):
        with suppress(OSError, ValueError, LookupError, TypeError, DataError):
            contents |= read_json(directory / KEYS)["evaluation_contents"]
    return contents


def added_run(run: Path, key: str) -> Path:
    """Return the directory of an evaluation that is added to a finished run."""
    return run / ADDED / key[:10]


def missing_evaluations(run: Path, keys: Iterable[str]) -> list[str]:
    """Return those of `keys` that a finished run has neither made nor been given later."""
    own = set(evaluation_keys(run))
    return [key for key in keys if key not in own and manifest_status(added_run(run, key)) != "finished"]


def manifest_status(run: Path) -> str | None:
    """Return the status in a run's manifest, or None if there is none that can be read."""
    try:
        return str(read_json(run / MANIFEST)["status"])
    except (OSError, ValueError, KeyError, TypeError, DataError):
        return None


def _scores(
    directory: Path, record: Mapping[str, Any], evaluations: Sequence[str] | None
) -> tuple[Score, ...]:
    scores = attach_items(directory, read_results(directory).scores)
    own = evaluation_keys(directory)
    if evaluations is None or list(evaluations) == own:
        return scores
    parts: dict[str, tuple[Score, ...]] = {}
    with foreign(RunError, f"`{directory / REPORT}` does not fit `{KEYS}`", "start the run again"):
        # Without keys, nothing says whose scores these are, and all evaluations are made again.
        counts = [int(made["scores"]) for made in record["manifest"]["evaluations"]] if own else []
        start = 0
        for key, count in zip(own, counts, strict=True):
            parts[key] = scores[start : start + count]
            start += count
    wanted: list[Score] = []
    for key in evaluations:
        added = added_run(directory, key)
        if key in parts:
            wanted += parts[key]
        elif manifest_status(added) == "finished":
            wanted += attach_items(added, read_results(added).scores)
    return tuple(wanted)


def _cost(path: Path, record: Mapping[str, Any]) -> RecordedCost | None:
    with foreign(RunError, f"the section `run-cost` of `{path}` is damaged", "start the run again"):
        return recorded_cost(record)


def _status(directory: Path) -> CellStatus:
    path = directory / MANIFEST
    if not path.is_file():
        return "waiting"
    said = _json(path).get("status")
    if said not in get_args(CellStatus):
        raise RunError(f"`{path}` has the status {said!r}, which no run has; start the run again")
    return cast("CellStatus", said)


def _json(path: Path) -> Mapping[str, Any]:
    """Return a file of a run that is no longer at work. Raises `RunError`."""
    try:
        content = read_record(path)
    except FileNotFoundError:
        # A killed run has a manifest but no report.
        return {}
    except (OSError, ValueError) as error:
        raise RunError(f"`{path}` cannot be read ({error}); start the run again") from error
    if not isinstance(content, dict):
        raise RunError(f"`{path}` holds no table; start the run again")
    return content
