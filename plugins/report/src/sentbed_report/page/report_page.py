"""Page of the report of a run or study, and its rendering as a self-contained `report.html`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from itertools import count
from typing import TYPE_CHECKING

import attrs

from sentbed_report.figures.plot import Plot
from sentbed_report.page.sections import Section
from sentbed_report.page_template import Script, page_template, resource
from sentbed_report.recipe_facts import Fact
from sentbed_report.tables.html import to_html as table_html
from sentbed_report.unique_names import unique_name

if TYPE_CHECKING:
    from jinja2 import Template


_IDS = ("theme", "tip", "made-with")
"""Ids of elements that every page has."""


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
    facts: tuple[Fact, ...]
    """Settings of the run or study: name and value."""
    sections: tuple[Section, ...]
    labels: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)
    """Cell -> axis -> label, for filters."""
    axes: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    """Axis -> its labels, for filters."""

    @property
    def anchored(self) -> list[tuple[str, Section]]:
        """Each section, with an id for its heading; the id is unique on the page.

        Titles need not be unique, since plugins choose the titles of their sections.
        """
        taken = set(_IDS)
        anchored = []
        for section in self.sections:
            title = "-".join(section.title.lower().split()) or "section"
            anchored.append((unique_name(title, taken), section))
        return anchored


def page_html(page: Page) -> str:
    """Return a page as HTML."""
    numbers = count()

    def figure_html(plot: Plot) -> str:
        # Each figure gets its own name: ids must differ, even if two figures are equal.
        return plot.svg(f"figure {next(numbers)}")

    labels = {cell: dict(of_cell) for cell, of_cell in page.labels.items()}
    return _template().render(
        page=page,
        labels=json.dumps(labels, ensure_ascii=False),
        head_script=Script(resource("sentbed_report.page", "remember.js")),
        script=Script(resource("sentbed_report.page", "page.js")),
        style=resource("sentbed_report.page", "style.css"),
        table_html=table_html,
        figure_html=figure_html,
    )


@cache
def _template() -> Template:
    return page_template("sentbed_report.page", "page.html.j2")
