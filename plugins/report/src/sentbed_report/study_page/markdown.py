"""A study's report for a terminal or a pull request: `report.md`, without plots."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sentbed_report.format_independent_table import legend
from sentbed_report.formatting import duration
from sentbed_report.markdown_report import escape, markdown_table
from sentbed_report.study.published_number_comparison import published_table
from sentbed_report.study.study_data import CellRun, StudyData
from sentbed_report.study_page import html_and_markdown_content
from sentbed_report.study_page.effect_tables import EFFECTS, Views
from sentbed_report.study_page.result_tables import Entry, ResultTable
from sentbed_report.study_page.sections import Section
from sentbed_report.table_formats import MARKDOWN, marked


def to_markdown(data: StudyData, views: Views) -> str:
    """Return `report.md`."""
    return "\n\n".join(_blocks(data, views)) + "\n"


def _blocks(data: StudyData, views: Views) -> Iterator[str]:
    yield f"# {escape(data.name)}"
    yield escape(
        f"{html_and_markdown_content.status_line(data)} {html_and_markdown_content.summary_line(data)}"
    )
    if failed := html_and_markdown_content.failures(data):
        yield "## Failed"
        for run in failed:
            yield f"{_linked(run, f'{run.cell}, seed {run.seed}')}:"
            yield _fenced(run.error or "no message", "text")
    yield "\n".join(_facts(data))
    if views.tables:
        yield "## Results"
        for table in views.tables:
            yield f"**{escape(table.title)}** {escape(table.note)}"
            yield _results(table)
            yield from map(escape, (*table.remarks, *legend(table.printed, "Bold", "italics")))
            if table.protocol:
                entries = "; ".join(f"{escape(name)} = {escape(value)}" for name, value in table.protocol)
                yield f"Protocol: {entries}"
        yield from map(escape, views.remarks)
    else:
        yield "No run has finished with scores yet."
    for section in views.sections:
        yield from _section(section)
    yield from _published(views)
    yield from map(escape, html_and_markdown_content.published_notes(data))
    yield from _views(views)
    yield "## Cells and runs"
    yield _runs(data)
    if different := [cell for cell in data.cells if cell.differences]:
        yield "Recipes against that of the " + ("baseline:" if data.baseline else "first cell:")
        yield "\n".join(f"- {escape(c.name)}: {'; '.join(map(escape, c.differences))}" for c in different)
    if data.recipe:
        yield "## Recipe"
        yield _fenced(data.recipe, "toml")


def _facts(data: StudyData) -> Iterator[str]:
    for name, value in html_and_markdown_content.facts(data):
        yield f"- {escape(name)}: {escape(value)}"
    for axis in data.axes:
        yield f"- {escape(axis.name)}: {' · '.join(map(escape, axis.labels))}"
    if data.baseline:
        yield f"- baseline: {escape(data.baseline)}"
    yield f"- seeds: {', '.join(map(str, data.seeds)) or 'none'}"
    for name, reasons in data.excluded:
        yield f"- left out: {escape(name)}: {escape(' '.join(reasons))}"


def _results(table: ResultTable) -> str:
    heading = ("cell", *(escape(one.text) for one in table.headings))
    rows = [
        (escape(row.title), *map(_entry, line.entries))
        for row, line in zip(table.printed.rows, table.rows, strict=True)
    ]
    rows += [
        (f"{escape(one.name)} ({escape(one.source or 'published')})", *map(escape, one.entries))
        for one in table.references
    ]
    return markdown_table(heading, rows, numbers=range(1, len(heading)))


def _section(section: Section) -> Iterator[str]:
    yield f"## {escape(section.title)}"
    yield from map(escape, section.sentences)
    for table in section.tables:
        if table.caption:
            yield f"**{escape(table.caption)}**"
        rows = [tuple(map(escape, (row.name, *row.entries))) for row in table.rows]
        yield markdown_table(tuple(map(escape, table.headings)), rows, numbers=table.numbers)
    yield from map(escape, section.remarks)


def _entry(entry: Entry) -> str:
    return ", ".join([marked(entry, MARKDOWN), *(f"published {one.text}" for one in entry.published)])


def _views(views: Views) -> Iterator[str]:
    if views.costs or views.cost_remark:
        yield "## Score against cost"
    if views.cost_remark:
        yield escape(views.cost_remark)
    for table in views.costs:
        yield f"**{escape(table.title)}**"
        headings = ("cell", "front", *map(escape, table.headings))
        lines = [
            (escape(line.name), str(line.front or ""), *(text for text, _ in line.entries))
            for line in table.rows
        ]
        yield markdown_table(headings, lines, numbers=range(1, len(headings)))
        yield escape(table.remark)
    if views.effects:
        yield "## One factor"
    for effects in views.effects:
        yield f"**{escape(effects.title)}**"
        rows = [
            (escape(axis), escape(row.label), row.mean, row.cells, escape(row.difference), row.pairs)
            for axis, of_axis in effects.axes
            for row in of_axis
        ]
        heading = ("axis", "label", "mean", "cells", "difference", "pairs")
        if rows:
            yield markdown_table(heading, rows, numbers=range(2, 6))
        yield from map(escape, effects.remarks)
    if views.effects:
        yield EFFECTS
    if views.demonstrations:
        yield "## Demonstrations"
        headings = tuple(map(escape, views.demonstrations.headings))
        found = [tuple(map(escape, texts)) for _, texts in views.demonstrations.rows]
        yield markdown_table(headings, found, numbers=range(3, len(headings)))
        yield escape(views.demonstrations.remark)
    if views.heat_maps:
        yield "## Two factors"
    for heat in views.heat_maps:
        yield f"**{escape(heat.title)}**, {escape(heat.row_axis)} by {escape(heat.column_axis)}"
        columns = (escape(heat.row_axis), *map(escape, heat.columns))
        rows_of = [(escape(label), *(cell.text for cell in cells)) for label, cells in heat.rows]
        yield markdown_table(columns, rows_of, numbers=range(1, len(columns)))
        yield escape(heat.remark)


def _published(views: Views) -> Iterator[str]:
    if not views.published:
        return
    yield "## Published"
    yield published_table(views.published)


def _runs(data: StudyData) -> str:
    seeds = html_and_markdown_content.run_seeds(data)
    rows = [
        (escape(cell.name), *(_run(run) for run in html_and_markdown_content.by_seed(cell, seeds)))
        for cell in data.cells
    ]
    return markdown_table(("cell", *(f"seed {seed}" for seed in seeds)), rows, numbers=())


def _run(run: CellRun | None) -> str:
    if run is None:
        return "–"
    return _linked(run, run.status) + (f", {duration(run.seconds)}" if run.seconds is not None else "")


def _linked(run: CellRun, text: str) -> str:
    address = html_and_markdown_content.link(run)
    return f"[{escape(text)}](<{address}>)" if address else escape(text)


def _fenced(text: str, language: str) -> str:
    longest = max((len(found) for found in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
