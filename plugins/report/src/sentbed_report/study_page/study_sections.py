"""The sections of a study's report, in their order."""

from __future__ import annotations

from collections.abc import Sequence

from sentbed_report.figures.study_figures import study_figures
from sentbed_report.formatting import count
from sentbed_report.item_page.item_page import ItemPage, with_addresses
from sentbed_report.page.sections import Section, Text
from sentbed_report.study.axis_tests import AxisFindings
from sentbed_report.study.selection import Selection
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary
from sentbed_report.study_page.code_section import code_section
from sentbed_report.study_page.effects_section import effects_section
from sentbed_report.study_page.power_section import power_section
from sentbed_report.study_page.prompts_section import prompts_section
from sentbed_report.study_page.published_section import published_section
from sentbed_report.study_page.rank_groups_section import rank_groups_section
from sentbed_report.study_page.results_section import results_sections
from sentbed_report.study_page.runs_section import failures_section, runs_section
from sentbed_report.study_page.selection_section import selection_section
from sentbed_report.study_page.study_cost_section import study_cost_section
from sentbed_report.study_page.warnings_section import warnings_section


def sections_of(
    data: StudyData,
    summaries: Sequence[Summary],
    item_pages: Sequence[ItemPage],
    selection: Selection | None,
    findings: Sequence[AxisFindings],
) -> list[Section]:
    """Return the sections of a study's report; sections without content are left out."""
    # Only the results need links. The other sections take `summaries`, whose rank groups are cached.
    linked = with_addresses(summaries, item_pages)
    sections = [
        failures_section(data),
        *results_sections(data, linked),
        selection_section(selection),
        rank_groups_section(data, summaries),
        prompts_section(data, summaries),
        effects_section(data, findings),
        power_section(data, summaries),
        published_section(data, summaries),
        _figures(data, summaries),
        warnings_section(data),
        code_section(data),
        runs_section(data),
        study_cost_section(data),
        _recipe(data),
    ]
    return [section for section in sections if section is not None]


def _figures(data: StudyData, summaries: Sequence[Summary]) -> Section | None:
    plots = [*study_figures(data, summaries).values()]
    if not plots:
        return None
    return Section("Figures", count(len(plots), "figure"), plots=plots)


def _recipe(data: StudyData) -> Section | None:
    if not data.recipe:
        return None
    return Section("Recipe", "of the study", texts=[Text(data.recipe, "toml")])
