"""Report of a study: `report.html` for browsers, `report.md` for terminals and pull requests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sentbed.helpers import write_atomic

from sentbed_report.figures.study_figures import study_figures
from sentbed_report.formatting import count
from sentbed_report.item_page.item_page import write_item_pages
from sentbed_report.page.markdown import page_markdown
from sentbed_report.page.report_page import Page, page_html
from sentbed_report.page.sections import Section, Text
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.published_number_comparison import published_numbers
from sentbed_report.study.selection import Selection, select
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary
from sentbed_report.study_page.answer import answer_lines
from sentbed_report.study_page.choice_section import choice_section
from sentbed_report.study_page.power_section import power_section
from sentbed_report.study_page.prompts_section import prompts_section
from sentbed_report.study_page.protocols_section import protocols_section
from sentbed_report.study_page.published_section import published_section
from sentbed_report.study_page.results_section import (
    effects_section,
    results_section,
    scores_section,
)
from sentbed_report.study_page.runs_section import (
    runs_section,
    status_class,
    status_text,
    summary_line,
)


def write_study_report(
    directory: Path,
    data: StudyData,
    summaries: Sequence[Summary] | None = None,
    selection: Selection | None = None,
    reloads: bool = False,
) -> Path:
    """Write `report.md`, `report.html` and the item pages into `directory`; return the path of `report.html`.

    `summaries` and `selection` are computed from `data` by default. `reloads` is `Page.reloads`.

    Raises:
        RunError: if a file cannot be written; each file is written atomically.
    """
    if summaries is None:
        summaries = summarise(data)
    linked = write_item_pages(directory, data, summaries)
    page = study_page(data, summaries, linked, selection, reloads)
    # `report.md` is written first, so that the numbers are on disk if drawing a figure fails.
    write_atomic(directory / "report.md", page_markdown(page))
    write_atomic(directory / "report.html", page_html(page))
    return directory / "report.html"


def study_page(
    data: StudyData,
    summaries: Sequence[Summary],
    linked: Sequence[Summary],
    selection: Selection | None = None,
    reloads: bool = False,
) -> Page:
    """Return the content of a study's report.

    `linked` are the tables with links to the item pages. Only the scores need them; the other sections take
    `summaries`, whose rank groups are cached.
    """
    if selection is None:
        selection = select(data, summaries)
    sections = [
        results_section(data, summaries),
        effects_section(data, summaries),
        scores_section(linked),
        published_section(data, published_numbers(data, summaries)),
        _figures(data, summaries),
        choice_section(selection),
        prompts_section(data, summaries),
        power_section(summaries),
        runs_section(data),
        protocols_section(summaries),
        _recipe(data),
    ]
    return Page(
        data.name,
        status_class(data),
        f"{status_text(data)}.",
        summary_line(data),
        tuple(answer_lines(data, summaries, selection)),
        tuple(section for section in sections if section is not None),
        {cell.name: cell.labels for cell in data.cells},
        {axis.name: axis.labels for axis in data.axes if len(axis.labels) > 1},
        reloads=reloads,
    )


def _figures(data: StudyData, summaries: Sequence[Summary]) -> Section | None:
    """Return the section with the figures that neither the results nor the effects show."""
    kinds = ("numbers", "cost", "geometry", "trajectory", "learning")
    plots = list(study_figures(data, summaries, kinds=kinds).values())
    if not plots:
        return None
    return Section("Figures", count(len(plots), "figure"), plots=plots)


def _recipe(data: StudyData) -> Section | None:
    if not data.recipe:
        return None
    return Section("Recipe", "of the study", texts=[Text(data.recipe, "toml")])
