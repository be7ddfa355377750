"""Section "Power": which differences the study's seeds see, and how many more would separate its cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sentbed_report.formatting import number, probability, signed
from sentbed_report.statistics.power import LEVEL, POWER
from sentbed_report.study.observed_power import TIMES, ObservedPower, judged_rows, observed_power
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary, title_of
from sentbed_report.study_page.sections import Section, SectionRow, SectionTable

_PERCENT = f"{100 * POWER:g} %"


def power_section(data: StudyData, summaries: Sequence[Summary]) -> Section | None:
    """Return the section, or None without comparisons under two seeds or more."""
    found = observed_power(summaries)
    if not found:
        return None
    apart = tuple(table for one in found if (table := _seeds_needed(one)) is not None)
    remarks = [
        "Comparisons: the p-values of the column that are corrected for, those of cells with the baseline; "
        "in a study that stops cells, as many for each of its looks.",
        "Spread: the standard deviation of the paired differences over seeds, pooled over the cells, and the "
        "standard error due to the test items, which more seeds do not reduce. With two or three seeds the "
        "first is a rough estimate itself.",
    ]
    if apart:
        remarks.append(
            "Seeds needed: if the true difference were the observed one; none, where the test items alone "
            "leave too wide an interval for any number of seeds. This serves to plan the next study and is "
            "no evidence on this one: it follows from the p-value, and says nothing more about which cell is "
            "better. Seeds added until a difference is significant would make the test find too much."
        )
    return Section(
        "Power",
        (
            f"Smallest true difference from {data.baseline} that a number of seeds finds with a probability "
            f"of {_PERCENT}, at a level of {LEVEL:g} for all comparisons of the column together.",
        ),
        (*_smallest(found), *apart),
        tuple(remarks),
    )


def _smallest(found: Sequence[ObservedPower]) -> Iterator[SectionTable]:
    """Yield a table for each number of seeds, so that its headings can name them."""
    for seeds in dict.fromkeys(one.seeds for one in found):
        numbers = tuple(times * seeds for times in TIMES)
        headings: tuple[str, ...] = ("column", "comparisons", "std over seeds", "error of items")
        rows = []
        for one in found:
            if one.seeds != seeds:
                continue
            values = (one.spread.seed_std, one.spread.item_std, *map(one.smallest, numbers))
            std, items, *least = (number(value, one.summary.digits) for value in values)
            entries = (str(one.comparisons), std, items if one.spread.item_std else "–", *least)
            rows.append(SectionRow(title_of(one.summary), entries))
        headings += tuple(f"{many:,} seeds" for many in numbers)
        yield SectionTable("", headings, tuple(rows), tuple(range(1, len(headings))))


def _seeds_needed(one: ObservedPower) -> SectionTable | None:
    """Return the table of cells that do not differ significantly; None if all do."""
    rows = tuple(_rows(one))
    caption = f"{title_of(one.summary)}: seeds that would find the observed difference ({_PERCENT} power)"
    headings = ("cell", "difference", "corrected p", "seeds needed")
    return SectionTable(caption, headings, rows, (1, 2)) if rows else None


def _rows(one: ObservedPower) -> Iterator[SectionRow]:
    for row, judged in judged_rows(one.summary):
        if judged.significant or judged.corrected is None:
            continue
        needed = one.needed_by(judged)
        if needed.items_leave is not None:
            seeds = f"none: items leave ±{needed.items_leave:.2g}"
        else:
            seeds = needed.reason if needed.seeds is None else f"{needed.seeds:,}"
        difference = signed(judged.difference, one.summary.digits)
        yield SectionRow(row.name, (difference, probability(judged.corrected), seeds), row.cell)
