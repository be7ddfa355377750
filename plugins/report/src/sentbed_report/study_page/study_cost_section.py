"""Section "Cost of the study": the total cost of its runs, and what shared stages saved.

Several runs start from a shared stage, which is trained once.
"""

from __future__ import annotations

from collections.abc import Iterator

from sentbed_report.formatting import count, share
from sentbed_report.page.sections import Section, Value, table_of
from sentbed_report.run_cost import RunCost
from sentbed_report.study.study_cost import StudyCost, study_cost
from sentbed_report.study.study_data import StudyData
from sentbed_report.tables.column import Column
from sentbed_report.tables.table import Table

_AMOUNTS = {
    "seconds": Column("time of runs", form="duration"),
    "processor_seconds": Column("processor time", form="duration"),
    "device_seconds": Column("device time", form="duration"),
    "tokens": Column("tokens trained on", form="count"),
}
"""Field of `RunCost` -> its column. Peaks of memory are left out, since they cannot be added."""


def study_cost_section(data: StudyData) -> Section | None:
    """Return the section; None if no cost is known, or if the runs do not belong to a study with axes."""
    cost = study_cost(data)
    if cost is None or not data.axes:
        return None

    line = ""
    taken = cost.taken.seconds
    if taken is not None:
        line = f"{_AMOUNTS['seconds'].text(taken)} of runs"
    return Section(
        "Cost of the study",
        line,
        [*_sentences(cost)],
        [_table(cost)],
        [*_notes(cost)],
    )


def _table(cost: StudyCost) -> Table:
    """Return a table of the known amounts: of the runs, of the shared stages, of both, and what sharing saved."""
    parts = {"taken": cost.taken}
    if cost.shared is not None:
        parts = {
            "cells": cost.cells,
            "shared stages": cost.shared,
            "taken": cost.taken,
            "unshared": cost.alone,
        }
    names = []
    for name in _AMOUNTS:
        if any(getattr(part, name, None) for part in parts.values()):
            names.append(name)

    rows: list[list[Value]] = []
    for title, part in parts.items():
        row: list[Value] = [title]
        for name in names:
            amount = getattr(part, name)
            if amount is None:
                amount = "not known"
            row.append(amount)
        rows.append(row)
    if cost.shared is not None:
        saved = [_saved(cost.taken, cost.alone, name) for name in names]
        rows.append(["saved", *saved])
    return table_of("", ["part"], [_AMOUNTS[name] for name in names], rows)


def _saved(
    taken: RunCost,
    alone: RunCost,
    name: str,
) -> str | None:
    """Return the share of an amount that shared stages saved, as text; None if the amount is unknown or 0."""
    used, unshared = getattr(taken, name), getattr(alone, name)
    if used is None or not unshared:
        return None
    if used >= unshared:
        return "0 %"
    return share(1 - used / unshared)


def _sentences(cost: StudyCost) -> Iterator[str]:
    verb = "has" if cost.runs == 1 else "have"
    yield (
        f"{count(cost.runs, 'run')} {verb} finished or failed. Their times are added up, even if they ran at "
        "the same time."
    )
    if cost.shared is not None:
        least, most = min(cost.begun.values()), max(cost.begun.values())
        begin = count(most, "run") if least == most else f"{least} to {most} runs"
        yield f"{count(len(cost.begun), 'run')} of shared stages, with each of which {begin} began."
        yield "Unshared: each shared stage is counted once for every run that began with it."


def _notes(cost: StudyCost) -> Iterator[str]:
    if cost.unknown:
        yield f"Without {count(cost.unknown, 'run')} whose cost is not recorded."
    if cost.cached:
        yield (
            f"{count(cost.cached, 'run')} encoded nothing for the evaluations: all vectors were cached by other "
            "runs, whose cost includes them."
        )
