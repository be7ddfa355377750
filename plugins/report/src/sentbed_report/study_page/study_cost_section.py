"""The section `Cost of the study`: what its runs took together, and what sharing stages has saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sentbed_report.formatting import count, duration, share
from sentbed_report.run_cost import Amount, RunCost
from sentbed_report.study.study_cost import StudyCost, study_cost
from sentbed_report.study.study_data import StudyData
from sentbed_report.study_page.sections import Section, SectionRow, SectionTable

TITLE = "Cost of the study"

_NAMES: Mapping[str, str] = {
    "seconds": "time of runs",
    "processor_seconds": "processor time",
    "device_seconds": "device time",
    "tokens": "tokens trained on",
}
"""Amount of a cost -> its name in the table. Peaks of memory have no sum."""


def study_cost_section(data: StudyData, further: Sequence[str] = ()) -> Section | None:
    """Return the section, or None if no cost is known, or these are runs of no study.

    `further` are sentences on what else was saved.
    """
    cost = study_cost(data)
    if cost is None or not data.axes:
        return None
    if cost.shared is None:
        columns = {"taken": cost.taken}
        headings: tuple[str, ...] = ("", "taken")
    else:
        columns = {
            "cells": cost.cells,
            "shared stages": cost.shared,
            "taken": cost.taken,
            "unshared": cost.alone,
        }
        headings = ("", *columns, "saved")
    table = SectionTable("", headings, tuple(_rows(columns)), tuple(range(1, len(headings))))
    return Section(TITLE, (*_sentences(cost), *further), (table,), tuple(_remarks(cost)))


def _rows(columns: Mapping[str, RunCost]) -> Iterator[SectionRow]:
    for name, title in _NAMES.items():
        amounts = {heading: getattr(cost, name) for heading, cost in columns.items()}
        # Without any amount, or on a processor alone, there is nothing to show.
        if not any(amounts.values()):
            continue
        entries = [_amount(name, amount) for amount in amounts.values()]
        if "unshared" in amounts:
            entries.append(_saved(amounts["taken"], amounts["unshared"]))
        yield SectionRow(title, tuple(entries))


def _amount(name: str, amount: Amount) -> str:
    if amount is None:
        return "not known"
    if name == "tokens":
        return f"{amount:,.0f}"
    return duration(amount)


def _saved(taken: Amount, unshared: Amount) -> str:
    if taken is None or not unshared:
        return "–"
    if taken >= unshared:
        return "0 %"
    return share(1 - taken / unshared)


def _sentences(cost: StudyCost) -> Iterator[str]:
    have = "has" if cost.runs == 1 else "have"
    ended = f"{count(cost.runs, 'run')} {have} finished or failed."
    yield f"{ended} Their times are added up, also of those that ran at the same time."
    if cost.shared is not None:
        least = min(cost.begun.values())
        most = max(cost.begun.values())
        runs = count(most, "run") if least == most else f"{least} to {most} runs"
        yield f"{count(len(cost.begun), 'run')} of shared stages, with each of which {runs} began."
        yield "Unshared: shared stages counted once for every run that began with them."


def _remarks(cost: StudyCost) -> Iterator[str]:
    if cost.unknown:
        yield f"Without {count(cost.unknown, 'run')} whose cost is not recorded."
    if cost.cached:
        yield (
            f"{count(cost.cached, 'run')} encoded nothing for the evaluations: all vectors were there from "
            "other runs, whose cost they are part of."
        )
