"""The section `Cost of the study`: what its runs took together, and what sharing stages has saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from sentbed_report.formatting import count, duration, share
from sentbed_report.run_cost import RunCost
from sentbed_report.study.study_cost import StudyCost, study_cost
from sentbed_report.study.study_data import StudyData
from sentbed_report.study_page.sections import Section, SectionRow, SectionTable

TITLE = "Cost of the study"


def energy(joules: float) -> str:
    """Return `512 J`, `7.20 kJ` or `1.50 MJ`."""
    for unit in ("J", "kJ", "MJ"):
        if joules < 999.5:
            return f"{joules:.3g} {unit}"
        joules /= 1000
    return f"{joules:,.3g} GJ"


_ROWS: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "seconds": ("time of runs", duration),
    "processor_seconds": ("processor time", duration),
    "device_seconds": ("device time", duration),
    "energy": ("energy", energy),
    "tokens": ("tokens trained on", lambda tokens: f"{tokens:,.0f}"),
}
"""Amount of a cost -> its name and its form. Peaks of memory have no sum."""


def study_cost_section(data: StudyData, further: Sequence[str] = ()) -> Section | None:
    """Return the section, or None if no cost is known, or these are runs of no study.

    `further` are sentences on what else was saved.
    """
    found = study_cost(data)
    if found is None or not data.axes:
        return None
    parts = [("taken", found.taken)]
    if found.shared is not None:
        parts = [("cells", found.cells), ("shared stages", found.shared), *parts, ("unshared", found.alone)]
    rows = tuple(_rows([cost for _, cost in parts], found.shared is not None))
    headings = ("", *(name for name, _ in parts), *(["saved"] if found.shared is not None else []))
    table = SectionTable("", headings, rows, tuple(range(1, len(headings))))
    return Section(TITLE, (*_sentences(found), *further), (table,), tuple(_remarks(found)))


def _rows(costs: Sequence[RunCost], saved: bool) -> Iterator[SectionRow]:
    for name, (title, form) in _ROWS.items():
        amounts = [getattr(cost, name) for cost in costs]
        if all(amount is None for amount in amounts) or not any(amounts):
            continue
        entries = ["not known" if amount is None else form(amount) for amount in amounts]
        if saved:
            *_, taken, alone = amounts
            entries.append("–" if taken is None or not alone else _share(1 - taken / alone))
        yield SectionRow(title, tuple(entries))


def _share(saved: float) -> str:
    return "0 %" if saved <= 0 else share(saved)


def _sentences(found: StudyCost) -> Iterator[str]:
    ended = f"{count(found.runs, 'run')} {'has' if found.runs == 1 else 'have'} finished or failed"
    yield f"{ended}. Their times are added up, also of those that ran at the same time."
    if found.shared is not None:
        least, most = min(found.begun.values()), max(found.begun.values())
        begin = count(most, "run") if least == most else f"{least} to {most} runs"
        yield f"{count(len(found.begun), 'run')} of shared stages, with each of which {begin} began."
        yield "Unshared: shared stages counted once for every run that began with them."


def _remarks(found: StudyCost) -> Iterator[str]:
    if found.unknown:
        yield f"Without {count(found.unknown, 'run')} whose cost is not recorded."
    if found.cached:
        yield (
            f"{count(found.cached, 'run')} encoded nothing for the evaluations: all vectors were there from "
            "other runs, whose cost they are part of."
        )
