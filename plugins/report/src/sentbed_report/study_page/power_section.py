"""Section "Power": the smallest differences that the study can find."""

from __future__ import annotations

from collections.abc import Sequence

from sentbed_report.page.sections import Section, Value, table_of
from sentbed_report.statistics.levels import SIGNIFICANT
from sentbed_report.statistics.power import POWER
from sentbed_report.study.observed_power import TIMES, observed_power
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary, title_of
from sentbed_report.tables.column import Column


def power_section(data: StudyData, summaries: Sequence[Summary]) -> Section | None:
    """Return the section; None if no cells were compared under at least two seeds."""
    tables = []
    for power in observed_power(summaries):
        spread = power.spread
        row: list[Value] = [
            title_of(power.summary),
            power.comparisons,
            spread.seed_std,
            spread.item_std,
            spread.prompt_std,
        ]
        headings = ["std over seeds", "error of items", "std over prompts"]
        for times in TIMES:
            seeds = times * power.seeds
            headings.append(f"{seeds:,} seeds")
            row.append(power.smallest(seeds))
        columns = [Column("comparisons", form="count")]
        for heading in headings:
            columns.append(Column(heading, digits=power.summary.digits))
        tables.append(table_of("", ["column"], columns, [row]))
    if not tables:
        return None

    notes = [
        f"Under a number of seeds: the smallest true difference from {data.baseline} that a study finds with a "
        f"probability of {100 * POWER:g} %, at a level of {SIGNIFICANT:g} for all comparisons of "
        "its column together.",
        "Standard deviations are of the paired differences; more seeds reduce neither the error of the items nor "
        "the variance over prompts.",
    ]
    return Section("Power", tables=tables, notes=notes)
