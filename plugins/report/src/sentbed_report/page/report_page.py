"""The page of a report: one `report.html` that loads nothing, of a run or of a study."""

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
"""Ids that the page itself has."""


@attrs.frozen
class AnswerLine:
    """A line at the top of a page: what it answers, and the answer."""

    question: str
    answer: str


@attrs.frozen(eq=False)
class Page:
    """Content of a report."""

    title: str
    status_class: str
    """`finished`, `interrupted` or `failed`, as the page colours it."""
    status: str
    """How far it is, in a sentence."""
    summary: str
    """What it is, in a line."""
    answer: tuple[AnswerLine, ...]
    """What it says, at the top."""
    facts: tuple[Fact, ...]
    """What it was made with."""
    sections: tuple[Section, ...]
    labels: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)
    """Cell -> axis -> label, for filters."""
    axes: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    """Axis -> its labels, for filters."""

    @property
    def anchored(self) -> list[tuple[str, Section]]:
        """Each section with the id of its heading, which nothing else on the page has.

        Plugins choose the titles of their sections, so that two may have the same.
        """
        taken = set(_IDS)
        anchored = []
        for section in self.sections:
            title = "-".join(section.title.lower().split()) or "section"
            anchored.append((unique_name(title, taken), section))
        return anchored


def page_html(page: Page, script: str = "") -> str:
    """Return the page; `script` is one that a served page runs besides its own."""
    numbers = count()

    def figure_html(plot: Plot) -> str:
        # Two figures may be the same, and ids must differ.
        return plot.element(f"f{next(numbers)}-")

    scripts = [Script(resource("sentbed_report.page", "page.js"))]
    if script:
        scripts.append(Script(script))
    return _template().render(
        page=page,
        labels=json.dumps(
            {cell: dict(labels) for cell, labels in page.labels.items()},
            ensure_ascii=False,
        ),
        head_script=Script(resource("sentbed_report.page", "remember.js")),
        scripts=scripts,
        style=resource("sentbed_report.page", "style.css"),
        table_html=table_html,
        figure_html=figure_html,
    )


@cache
def _template() -> Template:
    return page_template("sentbed_report.page", "page.html.j2")
