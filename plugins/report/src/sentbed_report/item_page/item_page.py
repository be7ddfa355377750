"""Pages of the items of a study, one page per task: `pages/NAME.html` beside the study's report.

The reader of a page chooses two cells, and the page compares them item by item: their predictions, and each
item's share of the score. A page is self-contained. Numbers in the study's report link to it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import attrs

from sentbed_report.page_template import Script, page_template, resource
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

MOST_CELLS = 40
"""Maximum number of cells on a page. If a study has more, the page has the baseline and the best cells."""

MOST_NUMBERS = 4_000_000
"""Maximum product of the number of items and the number of cells on a page. A page with many items has fewer
cells, but at least two."""

_DIGITS = 5
"""Number of significant digits of a number on a page."""


@attrs.frozen(eq=False)
class ItemPage:
    """The page with the items behind the scores of one column of a table."""

    address: str
    """Address relative to the directory of the study."""
    data: StudyData
    summary: Summary
    place: int
    """Index of the column in the table."""
    items: TaskItems

    def html(self) -> str:
        """Return the page as HTML."""
        column = self.summary.columns[self.place]
        content = _content(self, self.items)
        text = json.dumps(content, ensure_ascii=False)
        script = Script(resource("sentbed_report.item_page", "items.js"))
        return _template().render(
            title=f"{self.data.name}: items of {column.task} ({column.metric})",
            # `<` is escaped, so that no text of an item can end the script element.
            content=text.replace("<", "\\u003c"),
            script=script.text,
            script_hash=script.hash,
            style=resource("sentbed_report.page", "style.css"),
            are_sums=self.items.are_sums,
            has_cells=bool(content["cells"]),
        )


def item_pages(summaries: Sequence[Summary], data: StudyData) -> list[ItemPage]:
    """Return the item pages of a study: one for each column whose scores have saved items.

    There is no page for a table of further metrics, for a cost, or for an average.
    """
    pages = []
    taken: set[str] = set()
    for summary, name in zip(summaries, table_names(summaries), strict=True):
        for place, column in enumerate(summary.columns):
            if summary.metric or column.average or column.cost:
                continue
            items = items_of_column(summary, place)
            if items is None:
                continue
            page = f"{name}-{reduced(column.task)}"[:LONGEST]
            page = unique_name(page, taken, reduced)
            address = f"{DIRECTORY}/{page}.html"
            pages.append(ItemPage(address, data, summary, place, items))
    return pages


def with_addresses(
    summaries: Sequence[Summary], pages: Sequence[ItemPage]
) -> list[Summary]:
    """Return the tables; a column that has an item page gets the page's address."""
    addresses = {(id(page.summary), page.place): page.address for page in pages}
    linked = []
    for summary in summaries:
        columns = []
        for place, column in enumerate(summary.columns):
            address = addresses.get((id(summary), place), "")
            columns.append(attrs.evolve(column, address=address))
        linked.append(attrs.evolve(summary, columns=tuple(columns)))
    return linked


def _content(page: ItemPage, items: TaskItems) -> dict[str, Any]:
    """Return the numbers of a page, for JSON."""
    summary = page.summary
    column = summary.columns[page.place]
    names = list(_shown_cells(page, items))
    cells = []
    for name in names:
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
    return {
        "task": column.task,
        "metric": column.metric,
        "digits": summary.digits,
        "baseline": page.data.baseline,
        "left": len(items.cells) - len(names),
        "gold": gold,
        "cells": cells,
    }


def _shown_cells(page: ItemPage, items: TaskItems) -> Iterator[str]:
    """Yield the names of a page's cells, in the order of the study."""
    baseline = page.data.baseline
    lower = page.summary.columns[page.place].lower
    worth = {}
    for row in page.summary.rows:
        estimate = row.cells[page.place]
        if row.cell not in items.cells or estimate.value is None:
            continue
        if not estimate.is_finite:
            continue
        worth[row.cell] = estimate.value
        if lower:
            worth[row.cell] = -estimate.value

    size = 1
    for of_cell in items.cells.values():
        size = max(1, len(of_cell.of_runs[0].x))
        break
    most = max(2, min(MOST_CELLS, MOST_NUMBERS // size))
    best_first = sorted(worth, key=lambda cell: (cell != baseline, -worth[cell]))
    shown = best_first[:most]
    for cell in page.data.cells:
        if cell.name in shown:
            yield cell.name


def _rounded(values: Floats) -> list[float | None]:
    """Return numbers rounded to `_DIGITS` digits; None in place of a number that is not finite."""
    numbers: list[float | None] = []
    for value in values:
        number = None
        if math.isfinite(value):
            number = float(f"{value:.{_DIGITS}g}")
        numbers.append(number)
    return numbers


@cache
def _template() -> Template:
    return page_template("sentbed_report.item_page", "items.html.j2")
