"""The report of a run: `report.json` for programs, `report.md` for a terminal, `report.html` to look at."""

from __future__ import annotations

from pathlib import Path

from sentbed.paths import write_atomic
from sentbed.report.model import (
    Bootstrapped,
    Candidate,
    Difference,
    ExpectedRow,
    Ranking,
    ReportData,
    StageCurve,
    Status,
    Watched,
)

__all__ = [
    "Bootstrapped",
    "Candidate",
    "Difference",
    "ExpectedRow",
    "Ranking",
    "ReportData",
    "StageCurve",
    "Status",
    "Watched",
    "write_report",
]


def write_report(directory: Path, data: ReportData, name: str = "report") -> Path:
    """Write `report.json`, `report.md` and `report.html` into `directory`; return the path of the last.

    `name` is what the files are called instead of `report`.

    Raises:
        RunError: where a file cannot be written; each file is whole or as it was before.
    """
    from sentbed.report.html import to_html
    from sentbed.report.markdown import to_markdown
    from sentbed.report.record import to_json

    # The numbers first: whatever happens while plots are drawn, they are on disk.
    for suffix, render in ((".json", to_json), (".md", to_markdown), (".html", to_html)):
        # File names can hold bytes that are no UTF-8; Python keeps them as surrogates.
        write_atomic(directory / (name + suffix), render(data).encode("utf-8", "backslashreplace"))
    return directory / f"{name}.html"
