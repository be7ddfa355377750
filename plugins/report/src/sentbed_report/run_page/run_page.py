"""The content of a run's report, from which `report.html` and `report.md` are rendered."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from sentbed.protocols import ReportData, ReportSection
from sentbed.tools import plain

from sentbed_report.figures.geometry import geometry_plots, scores_of_run
from sentbed_report.formatting import (
    MISSING,
    count,
    duration,
    expected_digits,
    number,
)
from sentbed_report.page.report_page import AnswerLine, Page
from sentbed_report.page.sections import Section, Text, table_of
from sentbed_report.run_page.scores_section import (
    run_summaries,
    scores_section,
)
from sentbed_report.run_page.training_section import training_section
from sentbed_report.study.summary_tables import Summary
from sentbed_report.study_page.protocols_section import protocols_section
from sentbed_report.study_page.published_section import expected_table, met_line

_STATUS = {
    "finished": "Finished.",
    "interrupted": "Interrupted: the numbers are those measured until then.",
    "failed": "Failed: the numbers are those measured until then.",
}
"""Status of a run -> sentence on the numbers in the report."""

UNTRAINED = "training did not help: no validation beat the initial score, so the initial weights were kept"


def run_page(data: ReportData, summaries: Sequence[Summary] | None = None) -> Page:
    """Return the content of a run's report; `summaries` are its tables, by default computed from `data`."""
    if summaries is None:
        summaries = run_summaries(data)
    expected = None
    if data.expected:
        table = expected_table(data.expected, "expected")
        expected = Section("Expected", met_line(data.expected), tables=[table])

    sections = [
        _error(data),
        scores_section(data, summaries),
        expected,
        *map(_plugin_section, data.sections),
        training_section(data.stages),
        _figures(data),
        protocols_section(summaries, data.scores),
        _record(data),
    ]
    return Page(
        data.name,
        data.status,
        _STATUS[data.status],
        _summary_line(data),
        tuple(_answer(data)),
        tuple(section for section in sections if section is not None),
    )


def _summary_line(data: ReportData) -> str:
    """Return a line that sums up the run: what was measured, when, and for how long."""
    parts = [count(len(data.scores), "score")]
    if data.expected:
        parts.append(met_line(data.expected))
    # ISO 8601, to the minute.
    started = data.started[:16].replace("T", " ")
    return f"{', '.join(parts)}; started {started}, took {duration(data.seconds)}."


def _answer(data: ReportData) -> Iterator[AnswerLine]:
    """Yield the lines at the top of the page: untrained weights, missed numbers, warnings."""
    kept_steps = {stage.best_step for stage in data.stages}
    if kept_steps == {0}:
        yield AnswerLine("Untrained", UNTRAINED)

    missed = []
    for row in data.expected:
        if row.met is False:
            digits = expected_digits(row)
            found = number(row.found, digits)
            missed.append(f"{row.key}: {found} against {number(row.value, digits)}")
    if missed:
        yield AnswerLine("Not met", "; ".join(missed))

    title = "Warnings"
    for warning in data.warnings:
        yield AnswerLine(title, warning)
        title = ""


def _error(data: ReportData) -> Section | None:
    if not data.error:
        return None
    return Section("Error", texts=[Text(data.error)], is_open=True)


def _plugin_section(section: ReportSection) -> Section:
    """Return the section of a plugin, with one table; the table's first column has the names of the rows."""
    rows = []
    for row in section.rows:
        values: list[str] = []
        for value in row:
            text = str(value)
            if value is None:
                text = MISSING
            values.append(text)
        rows.append(values)
    heading, *columns = section.columns
    table = table_of("", [heading], columns, rows)
    notes = list(filter(None, [section.note]))
    return Section(section.title, tables=[table], notes=notes)


def _figures(data: ReportData) -> Section | None:
    plots = geometry_plots(scores_of_run(data.name, "", data.scores))
    if not plots:
        return None
    return Section("Figures", count(len(plots), "figure"), plots=plots)


def _record(data: ReportData) -> Section | None:
    texts = []
    if data.recipe_toml:
        texts.append(Text(data.recipe_toml, "toml", "Resolved recipe"))
    if data.manifest:
        manifest = json.dumps(plain(data.manifest), indent=2, ensure_ascii=False)
        texts.append(Text(manifest, "json", "Manifest"))
    if not texts:
        return None
    return Section("Record", "resolved recipe and manifest", texts=texts)
