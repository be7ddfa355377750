"""Rendering of tables as HTML, for reports (with a style sheet) and for notebooks (without)."""

from __future__ import annotations

from functools import cache
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from sentbed_report.page_template import page_template
from sentbed_report.tables.shown import legend, shown_cells
from sentbed_report.tables.table import Table

if TYPE_CHECKING:
    from jinja2 import Template


def to_html(table: Table) -> str:
    """Return a table and its notes as HTML; all texts are escaped."""
    notes = [*legend(table, "Bold", "underlined"), *table.notes]
    if any(column.address for column in table.columns):
        notes.append("A coloured number leads to the items behind it.")
    rows = [(row, shown_cells(table, row)) for row in table.rows]
    groups = []
    for name, columns in groupby(table.columns, attrgetter("group")):
        groups.append((name, len(list(columns))))
    return _template().render(table=table, rows=rows, groups=groups, notes=notes)


@cache
def _template() -> Template:
    return page_template("sentbed_report.tables", "table.html.j2")
