"""Pages of the items of a study, one page per task: `pages/NAME.html` beside the study's report.

The reader of a page chooses two cells, and the page compares them item by item: their predictions, and each
item's share of the score. A page is self-contained. Numbers in the study's report link to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from sentbed.helpers import write_atomic

from sentbed_report.page_template import page_template, resource
from sentbed_report.study.exports import table_names
from sentbed_report.study.item_differences import TaskItems, items_of_column
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.latex import reduced
from sentbed_report.unique_names import LONGEST, unique_name

if TYPE_CHECKING:
    from jinja2 import Template
    from sentbed_common.item_statistics import Floats

DIRECTORY = "pages"
"""Name of the directory of item pages in the study's directory."""

MOST_CELLS = 20
"""Maximum number of cells on a page. If a study has more, the page has the baseline and the best cells."""

_DIGITS = 5
"""Number of significant digits of a number on a page."""


def write_item_pages(
    directory: Path, data: StudyData, summaries: Sequence[Summary]
) -> list[Summary]:
    """Write a page for each column whose scores have saved items; return the tables with links to the pages.

    There is no page for a table of further metrics, for a cost, or for an average.
    """
    linked = []
    taken: set[str] = set()
    for summary, name in zip(summaries, table_names(summaries), strict=True):
        columns = []
        for place, column in enumerate(summary.columns):
            items = None
            if not (summary.metric or column.average or column.cost):
                items = items_of_column(summary, place)
            address = ""
            if items is not None:
                page = f"{name}-{reduced(column.task)}"[:LONGEST]
                address = f"{DIRECTORY}/{unique_name(page, taken, reduced)}.html"
                html = item_page_html(data, summary, place, items)
                write_atomic(directory / address, html)
            columns.append(attrs.evolve(column, address=address))
        linked.append(attrs.evolve(summary, columns=tuple(columns)))
    return linked


def item_page_html(
    data: StudyData,
    summary: Summary,
    place: int,
    items: TaskItems,
) -> str:
    """Return the page of the items behind the column of a table at the index `place`."""
    cells = []
    for name in _cells(data, summary, place, items)[:MOST_CELLS]:
        of_cell = items.cells[name]
        cells.append(
            {
                "name": name,
                "score": of_cell.score,
                "predictions": _rounded(of_cell.predictions),
                "shares": _rounded(of_cell.shares),
            }
        )
    gold = None
    if items.gold is not None:
        gold = _rounded(items.gold)
    content = {
        "digits": summary.digits,
        "baseline": data.baseline,
        "left": len(items.cells) - len(cells),
        "gold": gold,
        "cells": cells,
    }
    return _template().render(
        title=f"{data.name}: items of {items.task} ({items.metric})",
        content=content,
        script=resource("sentbed_report.item_page", "items.js"),
        style=resource("sentbed_report.page", "style.css"),
        are_sums=items.are_sums,
        has_cells=bool(cells),
    )


def _cells(
    data: StudyData,
    summary: Summary,
    place: int,
    items: TaskItems,
) -> list[str]:
    """Return the names of the cells with items and a finite score: the baseline, then the best first."""
    scores = {}
    for row in summary.rows:
        value = row.cells[place].value
        if row.cell in items.cells and row.cells[place].is_finite and value is not None:
            scores[row.cell] = value
    lower = summary.columns[place].lower
    names = sorted(scores, key=scores.__getitem__, reverse=not lower)
    return sorted(names, key=lambda name: name != data.baseline)


def _rounded(values: Floats) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in values]


@cache
def _template() -> Template:
    return page_template("sentbed_report.item_page", "items.html.j2")
