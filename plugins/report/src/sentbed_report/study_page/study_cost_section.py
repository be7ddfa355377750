"""Section "Cost of the study": the total cost of its runs."""

from __future__ import annotations

from sentbed_report.page.sections import Section, Value, table_of
from sentbed_report.study.study_cost import study_cost
from sentbed_report.study.study_data import StudyData
from sentbed_report.tables.column import Column

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

    columns = []
    amounts: list[Value] = []
    for name, column in _AMOUNTS.items():
        amount = getattr(cost, name)
        if amount is not None:
            columns.append(column)
            amounts.append(amount)
    line = ""
    if cost.seconds is not None:
        line = f"{_AMOUNTS['seconds'].text(cost.seconds)} of runs"
    sentence = "Stages that several runs share count once, and times are added up even of runs at the same time."
    table = table_of("", ["part"], columns, [["all runs", *amounts]])
    return Section("Cost of the study", line, [sentence], [table])
