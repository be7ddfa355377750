"""Figure of rank groups."""

from __future__ import annotations

import re

import pytest
from drawn_figures import axis_labels, hollow_points
from matplotlib.markers import CARETLEFT, CARETRIGHT
from sentbed_report.figures import rank_groups
from sentbed_report.figures.rank_groups import rank_groups_plot
from sentbed_report.study.build_summary_tables import summarise
from toy_study import collapsed, study


@pytest.mark.parametrize("limit", [40, 2])
def test_the_plot_has_a_row_for_each_of_the_best_cells(limit, monkeypatch):
    monkeypatch.setattr(rank_groups, "MOST_ROWS", limit)
    data = study()
    (summary,) = summarise(data, resamples=100)
    plot = rank_groups_plot(data, summary)
    texts = re.findall(r"<text[^>]*>([^<]+)</text>", plot.element("f-"))
    for place, row in enumerate(summary.groups.rows):
        assert (row.name in texts) is (place < limit)

    assert "ranks" in plot.element("f-").partition("aria-label=")[2][:800]
    assert "Ringed: the baseline." in plot.caption
    assert ("Of 6 cells the best 2 are drawn." in plot.caption) is (limit == 2)


@pytest.mark.parametrize(
    ("noise", "ends"),
    [(0.01, set()), (10.0, {50.0, 110.0}), (0.6, {50.0})],
    ids=["narrow", "wide", "uneven"],
)
def test_a_line_far_wider_than_the_differences_ends_in_an_arrow(study_of, noise, ends):
    numbers = {}
    for name, mean, spread in (("a", 90.0, 0.0), ("b", 80.0, 0.1), ("c", 70.0, 1.0)):
        numbers[name] = {
            1: {"MR": mean - spread * noise},
            2: {"MR": mean + spread * noise},
        }

    data = study_of(numbers)
    (summary,) = summarise(data)
    plot = rank_groups_plot(data, summary)
    axes = plot.figure(3.3).axes[0]
    expected = []
    first = 110.0
    last = 50.0
    for place, row in enumerate(summary.groups.rows):
        low = row.mean + row.low - row.from_best
        high = row.mean + row.high - row.from_best
        first = min(first, low)
        last = max(last, high)
        if low < 50:
            expected.append((50.0, place))
        if high > 110:
            expected.append((110.0, place))

    first = max(50.0, first)
    last = min(110.0, last)
    room = 0.05 * (last - first)
    assert axes.get_xlim() == pytest.approx((first - room, last + room))

    heads = []
    for line in axes.lines:
        if line.get_marker() in (CARETLEFT, CARETRIGHT):
            (head,) = line.get_xydata().tolist()
            heads.append(tuple(head))

    assert sorted(heads) == sorted(expected)
    assert {x for x, _ in heads} == ends
    assert ("Arrow: the line goes on beyond the plot." in plot.caption) is bool(ends)


def test_the_plot_of_cells_without_a_difference_has_their_intervals(study_of):
    data = study_of(
        {
            "a": {1: {"MR": 88.0}, 2: {"MR": 92.0}},
            "b": {1: {"MR": 90.0}, 2: {"MR": 90.0}},
        }
    )
    (summary,) = summarise(data)
    plot = rank_groups_plot(data, summary)
    half = max(row.high for row in summary.groups.rows)
    assert half > 1
    limits = plot.figure(3.3).axes[0].get_xlim()
    assert limits == pytest.approx((90 - 1.1 * half, 90 + 1.1 * half))
    assert "An arrow" not in plot.caption


def test_degenerate_cells_are_hollow_rows_below_and_others_are_named_with_the_reason(
    study_of,
):
    numbers = {}
    for name, mean in (("a", 90.0), ("b", 80.0), ("c", 10.0)):
        numbers[name] = {seed: {"STSB/spearman": mean + seed} for seed in (1, 2, 3)}

    numbers["d"] = {seed: {} for seed in (1, 2, 3)}
    data = collapsed(study_of(numbers, statuses={"d": "waiting"}, items=True), 2)
    (summary,) = summarise(data, resamples=10)
    plot = rank_groups_plot(data, summary)
    assert axis_labels(plot)[0] == "STSB (spearman)"
    assert hollow_points(plot) == [pytest.approx((12.0, 2.0))]
    first, last = plot.figure(6).axes[0].get_xlim()
    assert first < 12 < last
    assert plot.caption.endswith("Hollow, degenerate: c. Not drawn: d (waiting).")
