"""Pages of items, one per task: `pages/NAME.html` beside a study's report.

A page has the predictions of the cells and the shares of their items, and shows two cells that the reader
chooses. It is self-contained, and numbers of the report link to it.
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
from sentbed_report.study.item_differences import TaskItems, has_items, task_items
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.latex import reduced
from sentbed_report.unique_names import unique_name

if TYPE_CHECKING:
    from jinja2 import Template
    from sentbed.statistics.named_statistics import Floats

DIRECTORY = "pages"
"""Name of the directory of item pages in the study's directory."""
MOST_CELLS = 40
"""Largest number of cells of a page: the baseline, then the best cells."""
MOST_NUMBERS = 4_000_000
"""Largest number of items times cells; a page with more items has fewer cells."""
_DIGITS = 5


@attrs.frozen(eq=False)
class ItemPage:
    """The page of the items of one column of a table."""

    address: str
    """Relative to the directory of the study."""
    data: StudyData
    summary: Summary
    place: int
    """Number of the column."""

    def html(self) -> str:
        """Return the page. Its items are read only now, as those of all tasks may not fit into memory."""
        column = self.summary.columns[self.place]
        items = task_items(
            self.data,
            column.task,
            self.summary.evaluator,
            column.metric,
            column.protocol,
        )
        text = json.dumps(_content(self, items), ensure_ascii=False)
        script = Script(resource("sentbed_report.item_page", "items.js"))
        return _template().render(
            title=f"{self.data.name}: items of {column.task} ({column.metric})",
            # Escaped, so that no text in it can end the script element.
            content=text.replace("<", "\\u003c"),
            script=script.text,
            script_hash=script.hash,
            style=resource("sentbed_report.page", "style.css"),
            are_sums=items.are_sums,
        )


def item_pages(summaries: Sequence[Summary], data: StudyData) -> list[ItemPage]:
    """Return the pages of a study.

    Further metrics, costs, averages, and scores without items have no page.
    """
    pages = []
    taken: set[str] = set()
    for summary, name in zip(summaries, table_names(summaries), strict=True):
        for place, column in enumerate(summary.columns):
            if summary.metric or column.average or column.cost:
                continue
            if not has_items(
                data, column.task, summary.evaluator, column.metric, column.protocol
            ):
                continue
            name_of_page = unique_name(f"{name}-{reduced(column.task)}", taken, reduced)
            pages.append(
                ItemPage(f"{DIRECTORY}/{name_of_page}.html", data, summary, place)
            )
    return pages


def with_addresses(
    summaries: Sequence[Summary], pages: Sequence[ItemPage]
) -> list[Summary]:
    """Return the tables with columns that link to their pages."""
    addresses = {(id(page.summary), page.place): page.address for page in pages}
    linked = []
    for summary in summaries:
        columns = []
        for place, column in enumerate(summary.columns):
            columns.append(
                attrs.evolve(column, address=addresses.get((id(summary), place), ""))
            )
        linked.append(attrs.evolve(summary, columns=tuple(columns)))
    return linked


def _content(page: ItemPage, items: TaskItems) -> dict[str, Any]:
    summary = page.summary
    column = summary.columns[page.place]
    names = list(_shown_cells(page, items))
    cells = []
    for name in names:
        of_cell = items.cells[name]
        predictions, shares = _rounded(of_cell.predictions), _rounded(of_cell.shares)
        cells.append({"name": name, "predictions": predictions, "shares": shares})
    return {
        "task": column.task,
        "metric": column.metric,
        "digits": summary.digits,
        "baseline": page.data.baseline,
        "left": len(items.cells) - len(names),
        "gold": None if items.gold is None else _rounded(items.gold),
        "groups": None
        if items.groups is None
        else [int(group) for group in items.groups],
        "cells": cells,
    }


def _shown_cells(page: ItemPage, items: TaskItems) -> Iterator[str]:
    """Yield the cells of a page, in the order of the study."""
    baseline = page.data.baseline
    lower = page.summary.columns[page.place].lower
    worth = {}
    for row in page.summary.rows:
        estimate = row.cells[page.place]
        if (
            row.cell in items.cells
            and estimate.value is not None
            and estimate.is_finite
        ):
            worth[row.cell] = -estimate.value if lower else estimate.value
    size = next((len(of_cell.of_runs[0].x) for of_cell in items.cells.values()), 1)
    most = max(2, min(MOST_CELLS, MOST_NUMBERS // max(1, size)))
    best = sorted(worth, key=lambda cell: (cell != baseline, -worth[cell]))[:most]
    for cell in page.data.cells:
        if cell.name in best:
            yield cell.name


def _rounded(values: Floats) -> list[float | None]:
    """Return numbers with few digits; None for those that are not finite."""
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
