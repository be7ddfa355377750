"""Section on the warnings of a study's runs, such as that a stage did not change the encoder."""

from __future__ import annotations

import re

from sentbed_report.formatting import count
from sentbed_report.page.sections import Section, table_of
from sentbed_report.study.study_data import CellRun, StudyData
from sentbed_report.study_page.code_section import runs_and_cells

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def warnings_of_runs(data: StudyData) -> list[tuple[CellRun, list[str]]]:
    """Return each finished run, also those with fresh seeds, with its distinct warnings."""
    warned = []
    for cell in data.cells:
        for run in (*cell.runs, *cell.confirmation):
            if run.status != "finished":
                continue
            warnings = run.record.get("warnings")
            texts: dict[str, None] = {}
            if isinstance(warnings, list):
                texts = dict.fromkeys(
                    text for text in warnings if isinstance(text, str)
                )
            warned.append((run, list(texts)))
    return warned


def warnings_section(data: StudyData) -> Section | None:
    """Return the section; None if no finished run has a warning.

    Warnings that differ only in their numbers share a row, which has the text of the first of them.
    """
    finished = warnings_of_runs(data)
    warned = 0
    runs_of: dict[str, tuple[str, list[CellRun]]] = {}
    for run, warnings in finished:
        if warnings:
            warned += 1
        for warning in warnings:
            _, runs = runs_of.setdefault(_NUMBER.sub("0", warning), (warning, []))
            if run not in runs:
                runs.append(run)
    if not runs_of:
        return None

    rows = []
    for warning, runs in runs_of.values():
        rows.append((runs_and_cells(runs), warning))
    line = f"{warned:,} of {count(len(finished), 'finished run')} had warnings"
    return Section(
        "Warnings",
        line,
        (
            f"{line}. The tables have their scores nevertheless; read the warnings before you compare cells.",
        ),
        [table_of("", ["runs"], ["warning"], rows)],
        ("The numbers in a warning are those of the first run that has it.",),
    )
