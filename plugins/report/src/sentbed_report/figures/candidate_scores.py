"""The scores of a search's candidates, as a histogram."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sentbed_report.figures.colours import colour
from sentbed_report.figures.labels import label_text, legend_above, primary_score
from sentbed_report.figures.plot import Plot
from sentbed_report.formatting import count, number
from sentbed_report.run_report import Ranking

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def ranking_plot(ranking: Ranking, name: str) -> Plot | None:
    """Draw the distribution of the candidates' scores, marking the baseline and the best."""
    scores = [candidate.score for candidate in ranking.candidates if math.isfinite(candidate.score)]
    if not scores:
        return None
    baseline = ranking.baseline.score

    def paint(figure: Figure) -> None:
        from matplotlib.ticker import MaxNLocator

        axes = figure.subplots()
        bins = min(30, max(5, math.isqrt(len(scores))))
        axes.hist(scores, bins=bins, color=colour("c0"), alpha=0.6)
        axes.axvline(
            scores[0], color=colour("c1"), linewidth=1.6, label=f"best {number(scores[0], ranking.digits)}"
        )
        if math.isfinite(baseline):
            axes.axvline(
                baseline,
                color=colour("fg"),
                linewidth=1.6,
                linestyle="dashed",
                label=f"no demonstration {number(baseline, ranking.digits)}",
            )
        axes.set_xlabel(label_text(primary_score(ranking.evaluator)))
        axes.set_ylabel("candidates")
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.xaxis.set_major_locator(MaxNLocator(6))
        legend_above(figure, 2)

    missing = len(ranking.candidates) - len(scores)
    caption = f"{count(missing, 'score')} not finite, not drawn." if missing else ""
    return Plot(name, "Scores of the candidates", caption, 280, paint)
