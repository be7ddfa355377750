"""Section "Power": the smallest differences that the study can find."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from sentbed_report.page.sections import Section, Value, table_of
from sentbed_report.statistics.levels import SIGNIFICANT
from sentbed_report.statistics.power import POWER
from sentbed_report.study.observed_power import TIMES, ObservedPower, observed_power
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary, title_of
from sentbed_report.tables.column import Column
from sentbed_report.tables.table import Table

_PERCENT = f"{100 * POWER:g} %"


def power_section(data: StudyData, summaries: Sequence[Summary]) -> Section | None:
    """Return the section; None if no cells were compared under at least two seeds."""
    powers = observed_power(summaries)
    if not powers:
        return None

    corrected_together = "the column"
    if data.family == "study":
        corrected_together = "all columns"
    notes = [
        "Comparisons: the number of comparisons with the baseline in the column. The p-values of "
        f"{corrected_together} are corrected together; where other pairs of cells are tested, too, the "
        "comparisons with the baseline share one half of the level.",
        "Spread: the standard deviation of the paired differences over seeds, pooled over the cells, and the "
        "standard error due to the test items, which more seeds do not reduce. With two or three seeds, the "
        "standard deviation is a rough estimate.",
    ]
    has_prompt_std = any(power.spread.prompt_std for power in powers)
    if data.prompts and has_prompt_std:
        notes.append(
            f"Prompts: the study has {len(data.prompts)}; more seeds do not reduce the variance over prompts. "
            "The smallest differences are those with as many prompts."
        )
    return Section(
        "Power",
        sentences=(
            f"Smallest true difference from {data.baseline} that a study with so many seeds finds with a "
            f"probability of {_PERCENT}, at a level of {SIGNIFICANT:g} for all comparisons of "
            f"{corrected_together} together.",
        ),
        tables=[*_smallest_differences(powers)],
        notes=notes,
    )


def _smallest_differences(powers: Sequence[ObservedPower]) -> Iterator[Table]:
    """Yield one table per number of seeds and number of decimals; its headings depend on the number of seeds."""
    groups: defaultdict[tuple[int, int], list[ObservedPower]] = defaultdict(list)
    for power in powers:
        key = (power.seeds, power.summary.digits)
        groups[key].append(power)
    for (seeds, digits), powers_of_group in groups.items():
        yield _table(powers_of_group, seeds, digits)


def _table(powers: Sequence[ObservedPower], seeds: int, digits: int) -> Table:
    """Return the table of columns with the same number of seeds and number of decimals."""
    numbers_of_seeds = [times * seeds for times in TIMES]
    has_prompts = any(power.spread.prompt_std for power in powers)
    columns = [
        Column("comparisons", form="count"),
        Column("std over seeds", digits=digits),
        Column("error of items", digits=digits),
    ]
    if has_prompts:
        columns.append(Column("std over prompts", digits=digits))
    for number in numbers_of_seeds:
        columns.append(Column(f"{number:,} seeds", digits=digits))

    rows = []
    for power in powers:
        spread = power.spread
        row: list[Value] = [
            title_of(power.summary),
            power.comparisons,
            spread.seed_std,
            spread.item_std or None,
        ]
        if has_prompts:
            row.append(spread.prompt_std)
        row += map(power.smallest, numbers_of_seeds)
        rows.append(row)
    return table_of("", ["column"], columns, rows)
