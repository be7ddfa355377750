"""Figure of rank groups."""

from __future__ import annotations

import re

import pytest
from sentbed_report.figures import rank_groups
from sentbed_report.figures.rank_groups import rank_groups_plot
from sentbed_report.study.build_summary_tables import summarise
from toy_study import study


@pytest.mark.parametrize("limit", [40, 2])
def test_the_plot_has_a_row_for_each_of_the_best_cells(limit, monkeypatch):
    monkeypatch.setattr(rank_groups, "MOST_ROWS", limit)
    data = study()
    (summary,) = summarise(data)
    plot = rank_groups_plot(data, summary)
    texts = re.findall(r"<text[^>]*>([^<]+)</text>", plot.element("f-"))
    for place, row in enumerate(summary.groups.rows):
        assert (row.name in texts) is (place < limit)

    assert "ranks" in plot.element("f-").partition("aria-label=")[2][:800]
    assert "Ringed: the baseline." in plot.caption
    assert ("Of 6 cells the best 2 are drawn." in plot.caption) is (limit == 2)
