from __future__ import annotations

import pytest
from sentbed_report.tables.column import AVERAGE, Column, heading_of
from sentbed_report.tables.table import Header, Row, Table


def table(*estimates):
    rows = tuple(
        Row((f"r{place}",), (estimate,)) for place, estimate in enumerate(estimates)
    )
    return Table("t", (Header("cell"),), (Column("MR"),), rows, baseline="base")


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
