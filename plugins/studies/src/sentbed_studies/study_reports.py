"""Tables, exports and report of a study."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.exports import write_exports
from sentbed_report.study.read_study_directory import read_data
from sentbed_report.study.selection import select
from sentbed_report.study.study_data import StudyData
from sentbed_report.study_page.answer import answer_lines
from sentbed_report.study_page.study_report import write_study_report


def write_reports(
    directory: Path,
    say: Callable[[str], None] | None = None,
    data: StudyData | None = None,
    reloads: bool = False,
) -> Path:
    """Write the tables, exports and report of the results so far; return the path of `report.html`.

    Args:
        directory: Directory of the study.
        say: Gets the lines at the top of the report: the best cell, those that are not worse, and warnings.
        data: Results of the study; by default they are read from `directory`.
        reloads: Whether a browser loads the report again, since it will be written anew.

    Raises:
        RunError: if the directory is not a study's, or if a file cannot be written.
    """
    if data is None:
        data = read_data(directory)
    summaries = summarise(data)
    selection = select(data, summaries)
    write_exports(directory, data, summaries, selection)

    if say is not None:
        question = ""
        for line in answer_lines(data, summaries, selection):
            question = line.question or question
            say(f"{question}: {line.answer}")
    return write_study_report(directory, data, summaries, selection, reloads)
