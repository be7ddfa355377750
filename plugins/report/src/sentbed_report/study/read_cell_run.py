"""Reading of a run directory as one run of a study."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast, get_args

from sentbed.errors import RunError
from sentbed.helpers import foreign
from sentbed.protocols import Score
from sentbed.tools import MANIFEST

from sentbed_report.report_json import read_record
from sentbed_report.run_cost import RecordedCost, recorded_cost
from sentbed_report.run_results import REPORT, read_results
from sentbed_report.score_items import attach_items
from sentbed_report.study.study_data import CellRun, CellStatus

RANKING = "search.json"
"""What the search for a demonstration has found, in a run that had one before it."""


def read_run(directory: Path, cell: str, seed: int, base: Path) -> CellRun:
    """Return the run in `directory` as cell `cell` with `seed`; its path is relative to `base`.

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
        scores = attach_items(directory, read_results(directory).scores)
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
    )


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
