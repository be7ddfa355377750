"""Writes everything that can be read of a study: tables, exports, report."""

from __future__ import annotations

from pathlib import Path

from sentbed_report.study.exports import write_exports
from sentbed_report.study.summarize import summarise
from sentbed_report.study_page import write_study_report

from sentbed_studies.progress import read_data


def write_reports(directory: Path) -> Path:
    """Write tables and reports of what has finished until now; returns the path of `report.html`.

    Raises:
        RunError: where the directory is no study, or a file cannot be written.
    """
    data = read_data(directory)
    found = summarise(data)
    write_exports(directory, data, found)
    return write_study_report(directory, data, found)
