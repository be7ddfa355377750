from __future__ import annotations

import attrs
import pytest
from sentbed_report.statistics.significance import Judged
from sentbed_report.tables.column import AVERAGE, Column, heading_of
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Header, Row, Table, grouped_headings, legend

PLAIN = Estimate(value=1.0)
BEST = Estimate(value=1.0, place=1)
SECOND = Estimate(value=1.0, place=2)
MARKED = Estimate(value=1.0, judged=Judged({1: 2.0}, corrected=0.02))
RANKED = Estimate(value=1.0, rank=2)
BAD = Estimate(value=1.0, degenerate="one class")


def table(*estimates):
    rows = tuple(
        Row((f"r{place}",), (estimate,)) for place, estimate in enumerate(estimates)
    )
    return Table("t", (Header("cell"),), (Column("MR"),), rows, baseline="base")


@pytest.mark.parametrize(
    ("estimates", "expected"),
    [
        ((PLAIN,), []),
        ((BEST, PLAIN), ["Bold: the best of a column."]),
        ((BEST, SECOND), ["Bold: the best of a column; italics: the second best."]),
        ((MARKED,), ["† p < 0.05, ‡ p < 0.01, against base."]),
        (
            (RANKED,),
            ["Superscripts: the rank in a column; equal numbers share a rank."],
        ),
        (
            (BAD, PLAIN, BAD),
            ["◇ degenerate, neither ranked nor tested (r0: MR; r2: MR): one class."],
        ),
    ],
)
def test_the_legend_has_the_marks_of_the_table_and_no_others(estimates, expected):
    assert list(legend(table(*estimates), "Bold", "italics")) == expected


def test_the_legend_says_among_what_the_best_is_and_ranks_are():
    unfinished = attrs.evolve(table(BEST), is_complete=False)
    assert list(legend(unfinished, "*")) == [
        "*: the best of a column, of what has finished."
    ]
    within = attrs.evolve(table(RANKED), ranked_within=("model", "loss"))
    assert list(legend(within, "*")) == [
        "Superscripts: the rank in a column, among rows of the same model and loss; "
        "equal numbers share a rank."
    ]


def test_marks_of_one_score_under_several_labels_are_among_all_numbers():
    pivoted = attrs.evolve(table(BEST, SECOND, RANKED), is_one_score=True)
    assert list(legend(pivoted, "Bold", "italics")) == [
        "Bold: the best of the table; italics: the second best.",
        "Superscripts: the rank in the table; equal numbers share a rank.",
    ]


def test_tags_stand_behind_the_last_header_that_is_shown():
    headers = (Header("cell", shown=False), Header("pooler"), Header("loss"))
    results = Table("t", headers, (), ())
    row = Row(("c", "mean", "ctr"), (), ("baseline", "2 seeds"))
    assert results.title_of(row) == ["mean", "ctr (baseline; 2 seeds)"]


def test_headings_of_one_group_stand_under_it():
    columns = [
        Column(str(place), group=group)
        for place, group in enumerate(("a", "a", "", "b"))
    ]
    assert grouped_headings(columns) == [("a", 2), ("", 1), ("b", 1)]
    assert grouped_headings([Column("x"), Column("y")]) == []


@pytest.mark.parametrize(
    ("column", "several_metrics", "expected"),
    [
        (Column("MR", "f1"), False, "MR"),
        (Column("MR", "f1"), True, "MR (f1)"),
        (Column(AVERAGE, "f1"), True, "Avg"),
        (Column(AVERAGE, "f1", part="2 of 4"), True, "Avg (2 of 4)"),
    ],
)
def test_a_heading_has_the_metric_where_columns_differ_in_it(
    column, several_metrics, expected
):
    assert heading_of(column, several_metrics) == expected


@pytest.mark.parametrize(
    ("form", "value", "expected"),
    [
        ("number", -1.234, "−1.23"),
        ("signed", 1.0, "+1.00"),
        ("count", 12000.0, "12,000"),
        ("p-value", 0.0001, "< 0.001"),
        ("share", 0.25, "25 %"),
        ("duration", 117.0, "1 min 57 s"),
    ],
)
def test_a_column_prints_its_numbers_in_its_form(form, value, expected):
    assert Column("x", form=form).text(value) == expected
    assert Column("x", form=form).text(None) == "–"
