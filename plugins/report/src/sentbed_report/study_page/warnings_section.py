"""What the runs of a study have warned of, such as a stage that left the encoder as it was."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sentbed_report.formatting import count
from sentbed_report.study.study_data import CellRun, StudyData
from sentbed_report.study_page.code_section import runs_and_cells
from sentbed_report.study_page.sections import Section, SectionRow, SectionTable

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def warnings_section(data: StudyData) -> Section | None:
    """Return the section, or None where no finished run has a warning.

    Warnings that differ in their numbers only are one row, with the words of the first of them.
    """
    rows: dict[str, tuple[str, list[CellRun]]] = {}
    warned: set[int] = set()
    every = [run for cell in data.cells for run in (*cell.runs, *cell.confirmation)]
    runs = [run for run in every if run.status == "finished"]
    for run in runs:
        for warning in dict.fromkeys(_warnings(run)):
            _, of_row = rows.setdefault(_NUMBER.sub("0", warning), (warning, []))
            if run not in of_row:
                of_row.append(run)
            warned.add(id(run))
    if not rows:
        return None
    sentence = (
        f"{len(warned):,} of {count(len(runs), 'finished run')} warned of something. Their scores stand in "
        "the tables all the same; read what they say before you compare cells."
    )
    printed = tuple(SectionRow(runs_and_cells(of_row), (warning,)) for warning, of_row in rows.values())
    table = SectionTable("", ("runs", "warning"), printed)
    remark = "Numbers in a warning are those of the first run that has it."
    return Section("Warnings", (sentence,), (table,), (remark,))


def _warnings(run: CellRun) -> Iterator[str]:
    """Yield the warnings that the run's report has."""
    warnings = run.record.get("warnings")
    if isinstance(warnings, list):
        yield from (warning for warning in warnings if isinstance(warning, str))
