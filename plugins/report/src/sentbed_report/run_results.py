"""Scores of finished runs, as `report.json` has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
from sentbed.errors import RunError
from sentbed.protocols import Score

from sentbed_report.report_json import read_record, read_score

REPORT = "report.json"


@attrs.frozen(eq=False)
class Results:
    """Scores of a run."""

    directory: Path
    name: str
    scores: tuple[Score, ...]

    @property
    def encoders(self) -> tuple[str, ...]:
        """Encoders that have scores."""
        return tuple(dict.fromkeys(score.encoder for score in self.scores))


def read_results(run: str | Path) -> Results:
    """Read the scores of a run directory.

    Raises:
        RunError: if it is not a run directory, or has no scores.
    """
    directory = Path(run)
    try:
        report = read_record(directory / REPORT)
    except (OSError, ValueError) as error:
        raise _no_run(directory) from error
    return results_of(directory, report)


def results_of(directory: Path, report: Any) -> Results:
    """Return the scores in the `report.json` of a run directory.

    Raises:
        RunError: if it is no report, or has no scores.
    """
    try:
        scores = tuple(read_score(record) for record in report["scores"])
        name = str(report["name"])
    except (ValueError, KeyError, TypeError) as error:
        raise _no_run(directory) from error
    if not scores:
        raise RunError(f"the run in `{directory}` has no scores; add an `[[evaluate]]` to its recipe")
    return Results(directory, name, scores)


def _no_run(directory: Path) -> RunError:
    return RunError(f"`{directory}` is not a run directory (no `{REPORT}` in it that can be read); name one")
