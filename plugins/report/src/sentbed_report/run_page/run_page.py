"""The report of a run: `report.html` and `report.md`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from sentbed.protocols import ExpectedRow, ReportSection
from sentbed.tools import plain

from sentbed_report.figures.scatters import scatter_plots
from sentbed_report.figures.trajectories import encoder_planes, encoder_plot
from sentbed_report.formatting import (
    count,
    duration,
    expected_digits,
    expected_kind,
    expected_verdict,
    moment,
    number,
    signed,
    tolerance_text,
)
from sentbed_report.page.report_page import AnswerLine, Page
from sentbed_report.page.sections import Section, Text
from sentbed_report.recipe_facts import recipe_facts
from sentbed_report.run_page.protocols_section import run_protocols_section
from sentbed_report.run_page.scores_section import differences_section, run_summaries, scores_section
from sentbed_report.run_page.search_section import search_section, verdict
from sentbed_report.run_page.training_sections import training_section
from sentbed_report.run_report import RunReport
from sentbed_report.study.summary_tables import Summary, title_of
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Bars, Cell, Header, Link, Row, Table

_STATUS = {
    "finished": "Finished.",
    "interrupted": "Interrupted: the numbers are those measured until then.",
    "failed": "Failed: the numbers are those measured until then.",
}
"""Status -> what it means for the numbers in the report."""


def run_page(data: RunReport) -> Page:
    """Return the content of a run's report."""
    summaries = run_summaries(data)
    sections = [
        _error(data),
        search_section(data.ranking),
        scores_section(data, summaries),
        _expected(data.expected),
        differences_section(data),
        *map(_plugin_section, data.sections),
        training_section(data.stages),
        _similarity(data),
        _planes(data),
        run_protocols_section(data.scores, summaries),
        _record(data),
    ]
    return Page(
        data.name,
        data.status,
        _STATUS[data.status],
        summary_line(data),
        tuple(_answer(data, summaries)),
        recipe_facts(data.recipe_toml),
        tuple(section for section in sections if section is not None),
    )


def summary_line(data: RunReport) -> str:
    """Return the run in one line."""
    parts = []
    if data.stages:
        parts.append(count(len(data.stages), "stage"))
    if data.ranking is not None:
        parts.append(count(len(data.ranking.candidates), "candidate"))
    if data.scores:
        tasks = {(score.evaluator, score.task) for score in data.scores}
        parts.append(f"{count(len(data.scores), 'score')} on {count(len(tasks), 'task')}")
    if any(row.decides for row in data.expected):
        parts.append(_met(data.expected))
    what = ", ".join(parts or ["nothing was measured"])
    return f"{what}; started {moment(data.started)}, took {duration(data.seconds)}."


def _met(rows: Sequence[ExpectedRow]) -> str:
    """Return how many of the numbers that a recipe has to meet are met; the others are to compare with."""
    deciding = [row for row in rows if row.decides]
    if not deciding:
        return "to compare with"
    met = sum(row.met is True for row in deciding)
    return f"{met} of {count(len(deciding), 'expected number')} met"


def _answer(data: RunReport, summaries: Sequence[Summary]) -> Iterator[AnswerLine]:
    if data.ranking is not None:
        yield AnswerLine("Search", verdict(data.ranking))
    results = []
    for summary in summaries:
        if summary.metric or not summary.columns[-1].ranked or not summary.rows:
            continue
        last = summary.columns[-1]
        cell = summary.rows[-1].cells[-1]
        change = "" if cell.change is None else f" ({signed(cell.change, last.digits)} by training)"
        results.append(f"{title_of(summary)} {last.text(cell.value)}{change}")
    if results:
        yield AnswerLine("Scores", "; ".join(results))
    missed = [row for row in data.expected if row.met is False]
    if missed:
        yield AnswerLine("Not met", "; ".join(map(_missed, missed)))
    if data.warnings:
        yield AnswerLine("Mind", " ".join(data.warnings))


def _missed(row: ExpectedRow) -> str:
    digits = expected_digits(row)
    return f"{row.key}: {number(row.found, digits)} against {number(row.value, digits)}"


def _error(data: RunReport) -> Section | None:
    if not data.error:
        return None
    return Section("Error", texts=(Text(data.error),), is_open=True)


def _expected(rows: Sequence[ExpectedRow]) -> Section | None:
    """Return the numbers that the recipe expects, with those found; None without any."""
    if not rows:
        return None
    digits = max(map(expected_digits, rows))
    columns = (
        Column("found", digits=digits),
        Column("expected", digits=digits),
        Column("tolerance"),
        Column("difference", form="signed", digits=digits),
        Column("result"),
        Column("source"),
    )
    lines = []
    for row in rows:
        cells = (
            Estimate(value=row.found),
            Estimate(value=row.value),
            tolerance_text(row),
            Estimate(value=row.difference),
            Link(expected_verdict(row), "", expected_kind(row)),
            row.source,
        )
        lines.append(Row((row.key,), cells))
    table = Table("", (Header("number"),), columns, tuple(lines))
    return Section("Expected", _met(rows), tables=(table,))


def _plugin_section(section: ReportSection) -> Section:
    """Return the table of a plugin, whose first column is that of its rows."""
    heading, *columns = section.columns or ("",)
    rows = []
    for first, *values in section.rows:
        rows.append(Row((_text(first),), tuple(map(_plugin_cell, values))))
    table = Table("", (Header(heading),), tuple(map(Column, columns)), tuple(rows))
    return Section(section.title, tables=(table,), notes=(section.note,) if section.note else ())


def _plugin_cell(value: str | int | float | tuple[tuple[str, float], ...] | None) -> Cell:
    if isinstance(value, tuple):
        return Bars(value)
    return _text(value)


def _text(value: object) -> str:
    return "–" if value is None else str(value)


def _similarity(data: RunReport) -> Section | None:
    plots = scatter_plots(data.scatters)
    if not plots:
        return None
    titles = dict.fromkeys(scatter.title for _, scatter in data.scatters)
    return Section("Similarity", "; ".join(titles), plots=tuple(plots))


def _planes(data: RunReport) -> Section | None:
    planes = encoder_planes(data.scores)
    if not planes:
        return None
    plots = tuple(map(encoder_plot, planes))
    title = "; ".join(dict.fromkeys(plane.metrics for plane in planes))
    return Section(title, plots=plots)


def _record(data: RunReport) -> Section | None:
    texts = []
    if data.recipe_toml:
        texts.append(Text(data.recipe_toml, "toml", "Resolved recipe"))
    if data.manifest:
        manifest = json.dumps(plain(data.manifest), indent=2, ensure_ascii=False)
        texts.append(Text(manifest, "json", "Manifest"))
    if not texts:
        return None
    return Section("Record", "resolved recipe and manifest", texts=tuple(texts))
