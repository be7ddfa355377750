"""Writing of a run's report: `report.md` and `report.html`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sentbed.helpers import write_atomic
from sentbed.protocols import ReportData

if TYPE_CHECKING:
    from sentbed_report.study.summary_tables import Summary


def write_report(
    directory: Path,
    data: ReportData,
    summaries: Sequence[Summary] | None = None,
) -> Path:
    """Write `report.md` and `report.html` into `directory`; return the path of `report.html`.

    `summaries` are the result of `run_summaries`, if it has been computed already.

    Raises:
        RunError: if a file cannot be written; each file is written atomically.
    """
    from sentbed_report.page.markdown import page_markdown
    from sentbed_report.page.report_page import page_html
    from sentbed_report.run_page.run_page import run_page

    page = run_page(data, summaries)
    # `report.md` is written first, so that the tables are on disk if drawing a figure fails.
    write_atomic(directory / "report.md", page_markdown(page))
    write_atomic(directory / "report.html", page_html(page))
    return directory / "report.html"
