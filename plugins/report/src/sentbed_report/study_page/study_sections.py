"""The sections of a study's report that are sentences and tables of text, in order."""

from __future__ import annotations

from collections.abc import Sequence

from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary
from sentbed_report.study_page.code_section import code_section
from sentbed_report.study_page.decisions_section import decisions_section, saved
from sentbed_report.study_page.equivalence_section import equivalence_section
from sentbed_report.study_page.power_section import power_section
from sentbed_report.study_page.rank_groups_section import rank_groups_section
from sentbed_report.study_page.sampled_cells_section import sampled_cells
from sentbed_report.study_page.sections import Section
from sentbed_report.study_page.selection_section import selection_section
from sentbed_report.study_page.study_cost_section import study_cost_section
from sentbed_report.study_page.warnings_section import warnings_section


def sections_of(data: StudyData, summaries: Sequence[Summary]) -> tuple[Section, ...]:
    """Return the sections of a study's report; those with nothing to say are left out."""
    found = (
        *sampled_cells(data),
        warnings_section(data),
        code_section(data),
        decisions_section(data),
        selection_section(data, summaries),
        rank_groups_section(summaries, data.decisions),
        equivalence_section(data, summaries),
        power_section(data, summaries),
        study_cost_section(data, saved(data)),
    )
    return tuple(section for section in found if section is not None)
