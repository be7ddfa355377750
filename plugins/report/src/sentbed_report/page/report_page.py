"""Page of the report of a run or study, and its rendering as a self-contained `report.html`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

import attrs

from sentbed_report.page.sections import Section
from sentbed_report.page_template import page_template, resource
from sentbed_report.tables.html import to_html

if TYPE_CHECKING:
    from jinja2 import Template


@attrs.frozen
class AnswerLine:
    """A line at the top of a page: a question of a word or two, and its answer."""

    question: str
    answer: str
    address: str = ""
    """Address of the section that has more, such as `#runs`; empty without such a section."""


@attrs.frozen(eq=False)
class Page:
    """Content of the report of a run or study."""

    title: str
    status_class: str
    """CSS class of the status: `finished`, `interrupted` or `failed`."""
    status: str
    """Sentence on the status."""
    summary: str
    """Line that sums up the run or study."""
    answer: tuple[AnswerLine, ...]
    """Lines at the top of the page, with what most readers want to know."""
    sections: tuple[Section, ...]
    labels: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)
    """Cell -> axis -> label, for filters."""
    axes: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    """Axis -> its labels, for filters."""
    reloads: bool = False
    """Whether a browser loads the page again every 30 seconds, since it is written anew while a study runs."""


def page_html(page: Page) -> str:
    """Return a page as HTML."""
    labels = {cell: dict(of_cell) for cell, of_cell in page.labels.items()}
    return _template().render(
        page=page,
        labels=json.dumps(labels, ensure_ascii=False),
        script=resource("sentbed_report.page", "page.js"),
        style=resource("sentbed_report.page", "style.css"),
        table_html=to_html,
    )


@cache
def _template() -> Template:
    return page_template("sentbed_report.page", "page.html.j2")
