"""Scores of finished runs, as `report.json` has them."""

from __future__ import annotations

from pathlib import Path

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
        scores = tuple(read_score(record) for record in report["scores"])
        name = str(report["name"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"`{directory}` is not a run directory (no `{REPORT}` in it that can be read); name one"
        ) from error
    if not scores:
        raise RunError(f"the run in `{directory}` has no scores; add an `[[evaluate]]` to its recipe")
    return Results(directory, name, scores)
