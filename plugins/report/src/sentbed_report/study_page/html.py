"""A study's report for a browser: one `report.html` that loads nothing."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

import attrs

from sentbed_report.format_independent_table import DEGENERATE, legend
from sentbed_report.formatting import duration, expected_digits, expected_verdict, number, signed
from sentbed_report.page_template import page_template, resource
from sentbed_report.run_plots import Plot
from sentbed_report.study.study_data import StudyData
from sentbed_report.study_page import html_and_markdown_content
from sentbed_report.study_page.axis_effect_plots import effects_plot
from sentbed_report.study_page.effect_tables import EFFECTS, Views
from sentbed_report.study_page.score_cost_plots import cost_plot
from sentbed_report.study_page.study_figures import KINDS, plots_of

if TYPE_CHECKING:
    from jinja2 import Template


@attrs.frozen
class _Script:
    """Only what has its hash in the page's policy runs, whatever else gets into the page."""

    text: str

    @property
    def hash(self) -> str:
        return base64.b64encode(hashlib.sha256(self.text.encode()).digest()).decode()


def to_html(data: StudyData, views: Views, live: str = "") -> str:
    """Return `report.html`.

    With `live`, a fingerprint of the study, the page asks its server at `/state` for the present one every few
    seconds, and is loaded again when it differs.
    """
    seeds = html_and_markdown_content.run_seeds(data)
    scripts = [
        _Script(resource("sentbed_report.study_page", "remember.js")),
        _Script(resource("sentbed_report", "theme.js") + resource("sentbed_report.study_page", "study.js")),
    ]
    if live:
        scripts.append(_Script(resource("sentbed_report.study_page", "live.js")))
    return _template().render(
        live=live,
        data=data,
        status_line=html_and_markdown_content.status_line(data),
        status_class=html_and_markdown_content.status_class(data),
        summary_line=html_and_markdown_content.summary_line(data),
        failures=html_and_markdown_content.failures(data),
        facts=html_and_markdown_content.facts(data),
        published_notes=html_and_markdown_content.published_notes(data),
        baseline=_baseline(data),
        cells={cell.name: cell for cell in data.cells},
        views=views,
        effects_note=EFFECTS,
        effects_plots=[effects_plot(data, one.summary, f"e{i}") for i, one in enumerate(views.effects)],
        cost_plots=[cost_plot(data, one, f"c{i}") for i, one in enumerate(views.costs)],
        plots=_drawn(data, views),
        run_seeds=seeds,
        by_seed=html_and_markdown_content.by_seed,
        style=resource("sentbed_report", "style.css") + resource("sentbed_report.study_page", "study.css"),
        scripts=scripts,
        degenerate=DEGENERATE,
    )


def _drawn(data: StudyData, views: Views) -> list[Plot]:
    """The plots that are no part of a table."""
    kinds = (kind for name, kind in KINDS.items() if name not in ("effects", "cost"))
    return [plot for kind in kinds for plot in plots_of(kind, data, views.summaries)]


def _baseline(data: StudyData) -> Mapping[str, str]:
    return next((cell.labels for cell in data.cells if cell.name == data.baseline), {})


@cache
def _template() -> Template:
    return page_template(
        "sentbed_report.study_page",
        duration=duration,
        number=number,
        signed=signed,
        expected_digits=expected_digits,
        expected_verdict=expected_verdict,
        json=lambda labels: json.dumps(dict(labels), ensure_ascii=False),
        link=html_and_markdown_content.link,
        legend=lambda table: legend(table, "Bold", "underlined"),
    )
