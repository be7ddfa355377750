"""Tables, exports and report of a study: writes them, and tells whether the report is up to date."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sentbed.tools import MANIFEST
from sentbed_report.study.axes_without_effect import axes_without_effect
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.exports import write_exports
from sentbed_report.study.read_cell_run import ADDED
from sentbed_report.study.read_study_directory import read_data
from sentbed_report.study.selection import select
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.study_record import STUDY
from sentbed_report.study_page.study_report import write_study_report


def write_reports(
    directory: Path,
    say: Callable[[str], None] | None = None,
    data: StudyData | None = None,
) -> Path:
    """Write the tables, exports and report of the results so far; return the path of `report.html`.

    Args:
        directory: Directory of the study.
        say: Gets a sentence on each axis that changes no score, and on the chosen cell if the study has
            `[study.decide]`.
        data: Results of the study; by default they are read from `directory`.

    Raises:
        RunError: if the directory is not a study's, or if a file cannot be written.
    """
    if data is None:
        data = read_data(directory)
    summaries = summarise(data)
    selection = select(data, summaries)
    write_exports(directory, data, summaries, selection)

    if say is not None:
        for sentence in axes_without_effect(data):
            say(sentence)
        if selection is not None:
            say(selection.sentence)
    return write_study_report(directory, data, summaries, selection)


def is_older(report: Path, directory: Path) -> bool:
    """Whether the report of the study in `directory` is missing, or older than its runs.

    Files are written when a study begins, and when its runs begin or end.
    """
    files = [directory / STUDY]
    files += sorted(directory.glob(f"*/*/{MANIFEST}"))
    files += sorted(directory.glob(f"*/*/{ADDED}/*/{MANIFEST}"))
    try:
        written = report.stat().st_mtime_ns
        return any(file.stat().st_mtime_ns > written for file in files)
    except OSError:
        return True
