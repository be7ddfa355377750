"""The report for browsers: `report.html`, a single self-contained file."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from typing import TYPE_CHECKING

import attrs
from sentbed.protocols import ReportSection, StageCurve
from sentbed.tools import plain

from sentbed_report import formatting as text
from sentbed_report.figures.candidate_scores import ranking_plot
from sentbed_report.figures.encoder_planes import geometry_plot
from sentbed_report.figures.loss import loss_plot
from sentbed_report.figures.loss_metrics import metrics_plot
from sentbed_report.figures.plot import Plot
from sentbed_report.figures.scatters import scatter_groups
from sentbed_report.figures.trajectories import TrajectoryPanel, trajectory_panels, trajectory_plot
from sentbed_report.figures.validation import validation_plot
from sentbed_report.figures.watched_scores import score_plots
from sentbed_report.format_independent_table import DEGENERATE
from sentbed_report.page_template import page_template, resource
from sentbed_report.recipe_facts import recipe_facts
from sentbed_report.run_report import RunReport
from sentbed_report.score_tables import geometry_panels, score_tables

if TYPE_CHECKING:
    from jinja2 import Template


@attrs.frozen
class _Stage:
    """Plots of a stage on the page."""

    name: str
    plots: list[Plot]
    panels: tuple[TrajectoryPanel, ...]

    @classmethod
    def of(cls, stage: StageCurve, name: str) -> _Stage:
        panels = trajectory_panels(stage.watched)
        plots = [
            loss_plot(stage, f"l{name}"),
            validation_plot(stage, f"v{name}"),
            *(trajectory_plot(panel, f"t{name}-{i}") for i, panel in enumerate(panels)),
            *score_plots(stage.watched, f"w{name}"),
            metrics_plot(stage, f"m{name}"),
        ]
        return cls(stage.name, [plot for plot in plots if plot], panels)


def to_html(data: RunReport) -> str:
    """Return `report.html`."""
    script = resource("sentbed_report", "theme.js")
    panels = geometry_panels(data.scores)
    stages = [_Stage.of(stage, str(i)) for i, stage in enumerate(data.stages)]
    return _template().render(
        data=data,
        summary=text.summary(data),
        facts=recipe_facts(data.recipe_toml),
        status_line=text.status_line(data),
        verdict=text.verdict(data.ranking) if data.ranking else "",
        winner=list(zip(text.WINNER, text.winner(data.ranking), strict=True)) if data.ranking else [],
        distribution=ranking_plot(data.ranking, "r") if data.ranking else None,
        tables=score_tables(data.scores, data.bootstrap.intervals if data.bootstrap else ()),
        resampling=text.resampling(data.bootstrap) if data.bootstrap else "",
        pairing=text.pairing,
        stages=[stage for stage in stages if stage.plots],
        scatters=scatter_groups(data.scatters, "s"),
        geometry=[geometry_plot(panel, f"g{i}") for i, panel in enumerate(panels)],
        planes="; ".join(dict.fromkeys(panel.plane.title for panel in panels)),
        manifest=json.dumps(plain(data.manifest), indent=2, ensure_ascii=False) if data.manifest else "",
        longest_bar=longest_bar,
        degenerate=DEGENERATE,
        style=resource("sentbed_report", "style.css"),
        script=script,
        # The page's policy allows only this script.
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def longest_bar(section: ReportSection) -> float:
    """Return the largest share of a section's bars, which share one scale; 0 without bars."""
    bars = (value for row in section.rows for value in row if isinstance(value, tuple))
    return max((part for value in bars for _, part in value), default=0.0)


@cache
def _template() -> Template:
    return page_template(
        "sentbed_report",
        number=text.number,
        signed=text.signed,
        spread=text.spread,
        chance=text.chance,
        share=text.share,
        expected_digits=text.expected_digits,
        expected_verdict=text.expected_verdict,
    )
