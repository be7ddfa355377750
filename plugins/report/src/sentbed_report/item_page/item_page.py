"""Pages of items, one a task: `pages/NAME.html` beside a study's report.

A page holds the predictions of the cells and their items' shares, and shows those of two cells that one
chooses. It loads nothing, and is opened from a number of the report.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentbed.errors import RunError
from sentbed.helpers import write_atomic

from sentbed_report.page_template import page_template, resource
from sentbed_report.study.exports import table_names
from sentbed_report.study.item_differences import TaskItems, task_items
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.column import Column
from sentbed_report.tables.latex import reduced

if TYPE_CHECKING:
    from jinja2 import Template

    from sentbed_report.weighted_statistics import Floats

DIRECTORY = "pages"
"""Directory of the pages of items, in that of the study."""
MOST_CELLS = 40
"""Cells of a page: the baseline, then the best ones."""
MOST_NUMBERS = 4_000_000
"""Items times cells of a page, beyond which it has fewer cells."""
_DIGITS = 5


def write_item_pages(
    summaries: Sequence[Summary], directory: Path, data: StudyData
) -> dict[tuple[str, int], str]:
    """Write the pages of a study's tasks; return the address of each: table's name and column -> address.

    Further metrics, costs and averages have none, nor have scores without items.

    Raises:
        RunError: if a page cannot be written.
    """
    addresses = {}
    for summary, name in zip(summaries, table_names(summaries), strict=True):
        for place, column in enumerate(summary.columns):
            if not (summary.metric or column.average or column.cost):
                address = _write(directory, data, summary, place, name)
                if address:
                    addresses[name, place] = address
    return addresses


def _write(directory: Path, data: StudyData, summary: Summary, place: int, name: str) -> str:
    """Write the page of a column; return its address, empty if its scores have no items."""
    column = summary.columns[place]
    try:
        items = task_items(data, column.task, summary.evaluator, column.metric)
    except RunError:
        return ""
    address = f"{DIRECTORY}/{name}-{reduced(column.task) or place}.html"
    write_atomic(directory / address, item_page(data, summary, column, place, items))
    return address


def item_page(data: StudyData, summary: Summary, column: Column, place: int, items: TaskItems) -> str:
    """Return the page of a column's items."""
    content = json.dumps(_content(data, summary, column, place, items), ensure_ascii=False)
    # Whatever stands in it ends no element of the page.
    content = content.replace("<", "\\u003c")
    script = resource("sentbed_report.item_page", "items.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return _template().render(
        title=f"{data.name}: items of {column.task} ({column.metric})",
        content=content,
        script=script,
        script_hash=digest,
        style=resource("sentbed_report.page", "style.css"),
        are_sums=items.are_sums,
    )


def _content(
    data: StudyData, summary: Summary, column: Column, place: int, items: TaskItems
) -> dict[str, Any]:
    cells = list(_shown_cells(data, summary, column, place, items))
    return {
        "task": column.task,
        "metric": column.metric,
        "digits": summary.digits,
        "baseline": data.baseline,
        "left": len(items.cells) - len(cells),
        "gold": None if items.gold is None else _rounded(items.gold),
        "groups": None if items.groups is None else [int(group) for group in items.groups],
        "cells": [
            {
                "name": name,
                "predictions": _rounded(items.cells[name].predictions),
                "shares": _rounded(items.cells[name].shares),
            }
            for name in cells
        ],
    }


def _shown_cells(
    data: StudyData, summary: Summary, column: Column, place: int, items: TaskItems
) -> Iterator[str]:
    """Yield the cells of a page, in the order of the study."""
    worth = {}
    for row in summary.rows:
        estimate = row.cells[place]
        if row.cell in items.cells and estimate.value is not None and estimate.is_finite:
            worth[row.cell] = -estimate.value if column.lower else estimate.value
    size = next((len(of_cell.shares) for of_cell in items.cells.values()), 1)
    most = max(2, min(MOST_CELLS, MOST_NUMBERS // max(1, size)))
    best = sorted(worth, key=lambda cell: (cell != data.baseline, -worth[cell]))[:most]
    for cell in data.cells:
        if cell.name in best:
            yield cell.name


def _rounded(values: Floats) -> list[float | None]:
    """Return numbers of few digits; None where they are not finite."""
    numbers: list[float | None] = []
    for value in values:
        text = f"{value:.{_DIGITS}g}"
        numbers.append(float(text) if text not in ("nan", "inf", "-inf") else None)
    return numbers


@cache
def _template() -> Template:
    return page_template("sentbed_report.item_page", "items.html.j2")
