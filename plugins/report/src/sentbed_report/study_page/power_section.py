"""Section "Power": the smallest differences that the study can find, and the seeds that smaller ones need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from sentbed_report.page.sections import Section, table_of
from sentbed_report.statistics.power import LEVEL, POWER, SeedsNeeded
from sentbed_report.statistics.significance import Judged
from sentbed_report.study.observed_power import (
    TIMES,
    ObservedPower,
    judged_rows,
    observed_power,
)
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

    tables = []
    for power in powers:
        tables.append(_needed(power, "seeds", seeds_text))
    for power in powers:
        if power.spread.prompt_std:
            tables.append(_needed(power, "prompts", prompts_text))

    needed = []
    for table in tables:
        if table.rows:
            needed.append(table)

    corrected_together = "the column"
    if data.family == "study":
        corrected_together = "all columns"
    notes = [
        "Comparisons: the number of comparisons with the baseline whose p-values are corrected together, those "
        f"of {corrected_together}.",
        "Spread: the standard deviation of the paired differences over seeds, pooled over the cells, and the "
        "standard error due to the test items, which more seeds do not reduce. With two or three seeds, the "
        "standard deviation is a rough estimate.",
    ]
    has_prompt_std = any(power.spread.prompt_std for power in powers)
    if needed:
        notes.append(
            "Seeds needed: if the true difference were the observed difference; “none” if the test items alone "
            "leave too wide an interval for any number of seeds. This helps to plan the next study and is no "
            "evidence on this study: it follows from the p-value, and says nothing more about which cell is "
            "better. Adding seeds until a difference is significant would make the test find too much."
        )
    if data.prompts and has_prompt_std:
        notes.append(
            f"Prompts: the study has {len(data.prompts)}; more seeds do not reduce the variance over prompts. "
            "The smallest differences are those with as many prompts. Prompts needed: with as many seeds as "
            "the study has."
        )
    first = powers[0]
    smallest = f"{first.smallest(first.seeds):.{first.summary.digits}f}"
    return Section(
        "Power",
        f"{first.seeds} seeds find differences of {smallest} in {title_of(first.summary)}",
        (
            f"Smallest true difference from {data.baseline} that a study with so many seeds finds with a "
            f"probability of {_PERCENT}, at a level of {LEVEL:g} for all comparisons of {corrected_together} "
            "together.",
        ),
        [*_smallest_differences(powers), *needed],
        notes,
    )


def _smallest_differences(powers: Sequence[ObservedPower]) -> Iterator[Table]:
    """Yield one table per number of seeds and number of decimals; its headings depend on the number of seeds."""
    groups: dict[tuple[int, int], list[ObservedPower]] = {}
    for power in powers:
        groups.setdefault((power.seeds, power.summary.digits), []).append(power)

    for (seeds, digits), of_group in groups.items():
        numbers = [times * seeds for times in TIMES]
        has_prompts = any(power.spread.prompt_std for power in of_group)
        columns = [
            Column("comparisons", form="count"),
            Column("std over seeds", digits=digits),
            Column("error of items", digits=digits),
        ]
        if has_prompts:
            columns.append(Column("std over prompts", digits=digits))
        for number in numbers:
            columns.append(Column(f"{number:,} seeds", digits=digits))

        rows = []
        for power in of_group:
            item_std = power.spread.item_std or None
            values = [power.comparisons, power.spread.seed_std, item_std]
            if has_prompts:
                values.append(power.spread.prompt_std)
            differences = map(power.smallest, numbers)
            rows.append((title_of(power.summary), *values, *differences))
        yield table_of("", ["column"], columns, rows)


def _needed(
    power: ObservedPower,
    what: Literal["seeds", "prompts"],
    number_text: Callable[[ObservedPower, Judged], str],
) -> Table:
    """Return a table of cells that do not differ significantly, with the seeds or prompts that they need."""
    rows = []
    for row, judged in judged_rows(power.summary):
        if not judged.significant and judged.corrected is not None:
            needed = number_text(power, judged)
            rows.append((row, judged.difference, judged.corrected, needed))
    columns = (
        Column("difference", form="signed", digits=power.summary.digits),
        Column("corrected p", form="p-value"),
        f"{what} needed",
    )
    title = f"{title_of(power.summary)}: {what} that would find the observed difference ({_PERCENT} power)"
    return table_of(title, ["cell"], columns, rows)


def seeds_text(power: ObservedPower, judged: Judged) -> str:
    """Return how many seeds would make the observed difference significant, or why no number suffices."""
    return _number_text(power.needed_by(judged))


def prompts_text(power: ObservedPower, judged: Judged) -> str:
    """Return how many prompts would make the observed difference significant, or why no number suffices."""
    return _number_text(power.prompts_needed_by(judged))


def _number_text(needed: SeedsNeeded) -> str:
    if needed.items_leave is not None:
        return f"none: {needed.others} leave ±{needed.items_leave:.2g}"
    if needed.seeds is None:
        return needed.reason
    return f"{needed.seeds:,}"
