from __future__ import annotations

import math
import re

import pytest
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.markdown import escape, fenced, to_markdown
from sentbed_report.tables.table import Header, Link, Row, Table


def test_a_table_keeps_its_columns_whatever_a_label_says(results):
    lines = [line for line in to_markdown(results).splitlines() if line.startswith("|")]
    assert [len(re.findall(r"(?<!\\)\|", line)) for line in lines] == [5] * 5
    assert lines[1] == "| --- | --: | --: | --: |"
    assert (
        lines[2]
        == "| first (baseline) | *50.50* ± 0.71 | *60.50* ± 0.71 | *55.50* ± 0.71 |"
    )
    assert lines[3].startswith("| mean | **81.00** ± 1.41†, published 81.05 (−0.05) | ")
    assert lines[4].startswith(r'| odd \& 50% \| \<b\>\_x\_\</b\> \\ "q" | ')


def test_cells_of_text_links_and_numbers_that_are_none():
    columns = (Column("MR"), Column("CR"), Column("run"), Column("word"))
    cells = (
        Estimate({1: math.nan, 2: 1.0}),
        Estimate(),
        Link("done", "a b.html"),
        None,
    )
    table = Table("", (Header("cell"),), columns, (Row(("a",), cells),))
    assert (
        to_markdown(table).splitlines()[-1]
        == "| a | undefined | – | [done](<a b.html>) | – |"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<script>", r"\<script\>"),
        ("a_b _c_", r"a_b \_c\_"),
        ("[x](y) `z` **b** ~~d~~", r"\[x\](y) \`z\` \*\*b\*\* \~\~d\~\~"),
        ("two\nlines | $x$ &lt; #1", r"two lines \| \$x\$ \&lt; \#1"),
    ],
)
def test_nothing_that_is_typed_is_markup(text, expected):
    assert escape(text) == expected


def test_a_fence_is_longer_than_any_in_its_text():
    assert fenced("a\n````\n", "toml") == "`````toml\na\n````\n`````"
