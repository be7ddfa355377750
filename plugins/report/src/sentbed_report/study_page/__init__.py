"""The report of a study: `report.html` to look at, `report.md` for a terminal or a pull request."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sentbed.helpers import write_atomic

from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary
from sentbed_report.study_page.effect_tables import views_of
from sentbed_report.study_page.html import to_html
from sentbed_report.study_page.markdown import to_markdown

__all__ = ["write_study_report"]


def write_study_report(directory: Path, data: StudyData, summaries: Sequence[Summary] | None = None) -> Path:
    """Write `report.md` and `report.html` into `directory`; return the path of the last.

    `summaries` are the study's own where they are left out.

    Raises:
        RunError: if a file cannot be written; each file is written atomically.
    """
    views = views_of(data, summaries)
    # The numbers first: whatever happens while plots are drawn, they are on disk.
    for name, render in (("report.md", to_markdown), ("report.html", to_html)):
        write_atomic(directory / name, render(data, views))
    return directory / "report.html"
