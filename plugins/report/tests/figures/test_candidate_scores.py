"""The histogram of a search."""

from __future__ import annotations

import math
import re

import pytest
from drawn_figures import axis_labels
from sentbed_report.figures.candidate_scores import ranking_plot
from sentbed_report.run_report import Candidate, Ranking


def ranking(*scores: float, baseline: float = 70.0) -> Ranking:
    """Candidates with these scores, the best first."""
    candidates = tuple(Candidate(f"Sentence {i}.", "Word", value, "t") for i, value in enumerate(scores))
    return Ranking("sts", Candidate("no demonstration", "", baseline, "t"), candidates)


def bars(svg: str) -> list[tuple[float, float]]:
    """Left edge and height of each bar that has one: a closed path of four corners."""
    corners = re.findall(r'd="M (\S+) (\S+) L \S+ \S+ L \S+ (\S+) L \S+ \S+ z', svg)
    found = ((float(left), float(bottom) - float(top)) for left, bottom, top in corners)
    return [(left, height) for left, height in found if height > 0]


def test_a_histogram_counts_the_candidates_and_marks_baseline_and_best() -> None:
    plot = ranking_plot(ranking(80.0, 80.0, 80.0, 76.0, 70.0, math.nan, baseline=72.0), "r")
    assert plot is not None
    shown = bars(plot.svg)
    # Five bins of two from 70 to 80: one at 70, one at 76 (its left edge), three at 80.
    heights = [round(height / shown[0][1], 2) for _, height in shown[:3]]
    assert heights == [1.0, 1.0, 3.0]
    assert plot.caption == "1 score not finite, not drawn."
    assert "best 80.00. no demonstration 72.00" in plot.svg
    assert axis_labels(plot) == ("sts (primary score)", "candidates")
    assert ">best 80.00<" in plot.svg
    assert ">no demonstration 72.00<" in plot.svg


@pytest.mark.parametrize("scores", [(70.0,), (70.0,) * 300, (99.0, *(1.0 - i / 1e6 for i in range(299)))])
def test_a_histogram_of_odd_scores_is_drawn_in_a_few_bars(scores: tuple[float, ...]) -> None:
    plot = ranking_plot(ranking(*scores), "r")
    assert plot is not None
    assert 1 <= len(bars(plot.svg)) <= 31


def test_without_a_finite_score_there_is_no_histogram() -> None:
    assert ranking_plot(ranking(math.nan), "r") is None
