"""The report of a study: `report.html` to look at, `report.md` for a terminal or a pull request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sentbed.helpers import write_atomic

from sentbed_report.item_page.item_page import write_item_pages
from sentbed_report.page.markdown import page_markdown
from sentbed_report.page.report_page import Page, page_html
from sentbed_report.study.axis_tests import axis_findings
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.selection import select
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary
from sentbed_report.study_page.answer import answer_lines
from sentbed_report.study_page.runs_section import facts, status_class, status_line, summary_line
from sentbed_report.study_page.study_sections import sections_of


def write_study_report(directory: Path, data: StudyData, summaries: Sequence[Summary] | None = None) -> Path:
    """Write `report.md` and `report.html` into `directory`; return the path of the last.

    `summaries` are the study's own where they are left out.

    Raises:
        RunError: if a file cannot be written; each file is written atomically.
    """
    if summaries is None:
        summaries = summarise(data)
    page = study_page(data, summaries, write_item_pages(summaries, directory, data))
    # The numbers first: whatever happens while figures are drawn, they are on disk.
    write_atomic(directory / "report.md", page_markdown(page))
    write_atomic(directory / "report.html", page_html(page))
    return directory / "report.html"


def study_page(
    data: StudyData,
    summaries: Sequence[Summary],
    item_pages: Mapping[tuple[str, int], str],
) -> Page:
    """Return the content of a study's report; `item_pages` are those of `write_item_pages`."""
    selection = select(data, summaries)
    findings = axis_findings(data, summaries)
    return Page(
        data.name,
        status_class(data),
        status_line(data),
        summary_line(data),
        tuple(answer_lines(data, summaries, selection, findings)),
        facts(data),
        tuple(sections_of(data, summaries, selection, item_pages, findings)),
        {cell.name: cell.labels for cell in data.cells},
        {axis.name: axis.labels for axis in data.axes if len(axis.labels) > 1},
    )
