from __future__ import annotations

import math
import re

import attrs
import pytest
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.html import cell_html, to_html
from sentbed_report.tables.table import Bars, Header, Link, Row, Table

ATTACK = "</script><img src=x onerror=alert(1)>\"'"


def test_a_row_is_sorted_by_more_digits_than_it_shows_and_filtered_by_its_cell(results):
    html = to_html(results)
    assert re.findall(r'<tr data-cell="(\w+)"', html)[:2] == ["first", "mean"]
    assert '<tr data-cell="first" class="baseline ">' in html
    assert re.findall(r'<td class="n" data-value="([-\d.]+)"', html) == [
        *("50.5", "60.5", "81", "90", "49.5", "-2"),
    ]
    assert '<small class="tag">baseline</small>' in html


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (None, '<span class="none">–</span>'),
        (Estimate(), '<span class="none">–</span>'),
        (Estimate({1: math.nan, 2: 1.0}), '<span class="none">undefined</span>'),
        (Estimate(value=1.0, rank=2), "1.00<sup>²</sup>"),
        (Estimate(value=1.0, place=2), "<u>1.00</u>"),
        (
            Link("<b>", "a&b", "met"),
            '<span class="met"><a href="a&amp;b">&lt;b&gt;</a></span>',
        ),
        ("<b>", "&lt;b&gt;"),
    ],
)
def test_cells(cell, expected):
    assert cell_html(cell, Column("MR")) == expected


def test_nothing_that_is_typed_is_markup():
    column = Column(ATTACK, heading=ATTACK, group=ATTACK)
    estimate = Estimate(value=1.0, degenerate=ATTACK)
    cells = (estimate, ATTACK, Link(ATTACK, ATTACK), Bars(((ATTACK, 0.5),)))
    row = Row((ATTACK,), cells, (ATTACK,), ATTACK)
    table = Table(
        ATTACK, (Header(ATTACK),), (column,) * 4, (row,), (ATTACK,), baseline=ATTACK
    )
    html = to_html(
        attrs.evolve(table, rows=(row, attrs.evolve(row, is_reference=True)))
    )
    assert not re.search(r"<(script|img)", html)
    # A quote that would end an attribute is escaped within it.
    assert not re.search(r'="[^"]*<', html)
    assert html.count("onerror") > 10


def test_bars_are_on_the_scale_of_the_longest_one():
    bars = Bars((("a", 0.5), ("b", 0.25)))
    html = to_html(
        Table("t", (Header("cell"),), (Column("share"),), (Row(("x",), (bars,)),))
    )
    assert re.findall(r"width:([\d.]+)%", html) == ["100.00", "50.00"]
