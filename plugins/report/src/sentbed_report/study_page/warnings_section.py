"""What the runs of a study have warned of, such as a stage that left the encoder as it was."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sentbed_report.formatting import count
from sentbed_report.page.sections import Section
from sentbed_report.study.study_data import CellRun, StudyData
from sentbed_report.study_page.code_section import runs_and_cells
from sentbed_report.tables.column import Column
from sentbed_report.tables.table import Header, Row, Table

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def warnings_section(data: StudyData) -> Section | None:
    """Return the section, or None where no finished run has a warning.

    Warnings that differ in their numbers only are one row, with the words of the first of them.
    """
    runs_of: dict[str, tuple[str, list[CellRun]]] = {}
    warned: set[int] = set()
    every = [run for cell in data.cells for run in (*cell.runs, *cell.confirmation)]
    finished = [run for run in every if run.status == "finished"]
    for run in finished:
        for warning in dict.fromkeys(_warnings(run)):
            _, runs = runs_of.setdefault(_NUMBER.sub("0", warning), (warning, []))
            if run not in runs:
                runs.append(run)
            warned.add(id(run))
    if not runs_of:
        return None
    rows = [Row((runs_and_cells(runs),), (warning,)) for warning, runs in runs_of.values()]
    line = f"{len(warned):,} of {count(len(finished), 'finished run')} warned of something"
    return Section(
        "Warnings",
        line,
        (
            f"{line}. Their scores stand in the tables all the same; read what they say before you compare "
            "cells.",
        ),
        (Table("", (Header("runs"),), (Column("warning"),), tuple(rows)),),
        ("Numbers in a warning are those of the first run that has it.",),
    )


def _warnings(run: CellRun) -> Iterator[str]:
    """Yield the warnings that the run's report has."""
    warnings = run.record.get("warnings")
    if isinstance(warnings, list):
        yield from (warning for warning in warnings if isinstance(warning, str))
