"""Writing of a run's report: `report.json`, `report.md` and `report.html`."""

from __future__ import annotations

from pathlib import Path

from sentbed.helpers import write_atomic

from sentbed_report.run_report import RunReport


def write_report(directory: Path, data: RunReport, name: str = "report") -> Path:
    """Write `report.json`, `report.md` and `report.html` into `directory`; return the path of the last.

    `name` is what the files are called instead of `report`.

    Raises:
        RunError: if a file cannot be written; each file is written atomically.
    """
    from sentbed_report.html_report import to_html
    from sentbed_report.markdown_report import to_markdown
    from sentbed_report.report_json import to_json

    # The numbers first: whatever happens while plots are drawn, they are on disk.
    for suffix, render in ((".json", to_json), (".md", to_markdown), (".html", to_html)):
        write_atomic(directory / (name + suffix), render(data))
    return directory / f"{name}.html"
