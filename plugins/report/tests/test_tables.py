"""A table in every format: its numbers, their marks, and texts that are no markup."""

from __future__ import annotations

import math
import re

import attrs
import pytest
from sentbed.protocols import ExpectedRow
from sentbed_report.statistics.difference import Difference, Judged, Source
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.published_number_config import Published
from sentbed_report.study.study_data import AxisInfo
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.html import to_html
from sentbed_report.tables.latex import to_latex
from sentbed_report.tables.markdown import fenced, to_markdown
from sentbed_report.tables.table import Header, Link, Row, Table
from sentbed_report.tables.terminal import to_text

ODD_LABEL = 'odd & 50% | <b>_x_</b> \\ "q"'
NUMBERS = {
    "first": {1: {"MR": 50.0, "CR": 60.0}, 2: {"MR": 51.0, "CR": 61.0}},
    "mean": {1: {"MR": 80.0, "CR": 90.0}, 2: {"MR": 82.0, "CR": 90.0}},
    ODD_LABEL: {1: {"MR": 49.0, "CR": -1.5}, 2: {"MR": 50.0, "CR": -2.5}},
}
EXPECTED = {"Table 1": Published({"mean": {"MR": 81.05, "CR": 90.0, "AVG": 70.0}}, 0.1)}
ATTACK = "</script><img src=x onerror=alert(1)>\"'"
# With a known variance, the interval of 95 % is 1 to 5.
BETTER = Judged(
    Difference(3.0, {"seeds": Source((2 / 1.959964) ** 2, math.inf)}), corrected=0.004
)


@pytest.fixture
def results(study_of):
    """Three cells of one axis under two seeds, with published numbers and tests against the first."""
    axis = AxisInfo("pooler", tuple(NUMBERS))
    data = study_of(NUMBERS, [axis], baseline="first", items=True, expected=EXPECTED)
    (summary,) = summarise(data)
    return summary.table


def table_of_cells(*cells, columns=None, headers=("a",)):
    columns = columns or [Column(f"T{place}") for place in range(len(cells))]
    return Table("t", (Header("cell"),), tuple(columns), (Row(headers, cells),))


def cells_of_latex(text):
    """Return the cells of each row; those of several columns are as many."""
    rows = []
    for line in re.findall(r"^(.*?) *\\\\$", text, re.MULTILINE):
        cells = []
        for cell in re.split(r"(?<!\\)&", line):
            span = re.match(r" *\\multicolumn\{(\d)\}", cell)
            width = 1 if span is None else int(span[1])
            cells += [cell.strip()] + [""] * (width - 1)
        rows.append(cells)

    return rows


def check_latex(latex):
    """Check that braces, mathematics and environments are balanced and that no special sign stands bare."""
    text = re.sub(r"\\[\\{}&%#$_]|^%.*$", "", latex, flags=re.MULTILINE)

    assert not re.search(r"[%#~^_]", re.sub(r"\$\^\{[^}]*\}\$", "", text))
    assert text.count("{") == text.count("}")
    assert text.count("$") % 2 == 0
    assert text.isascii()

    opened = re.findall(r"\\begin\{([\w*]+)\}", latex)

    assert sorted(opened) == sorted(re.findall(r"\\end\{([\w*]+)\}", latex))


@pytest.mark.parametrize(
    ("estimate", "expected"),
    [
        (Estimate({1: 1.0, 2: 2.0}), "1.50 ± 0.71"),
        (Estimate({1: math.nan, 2: 1.0}), "undefined"),
        (Estimate(), "–"),
        (Estimate(value=1.0, rank=12), "1.00¹²"),
        (Estimate(value=1.0, judged=BETTER), "1.00‡"),
        (Estimate(value=1.0, judged=Judged(corrected=0.2)), "1.00"),
        (Estimate(value=math.nan, degenerate="one class"), "undefined◇"),
        (Estimate(value=1.0, interval=(0.5, 1.5)), "1.00, 0.50 to 1.50"),
        (
            Estimate(value=1.0, published=(ExpectedRow("MR", 1.5, 0.1, "T", 1.0),)),
            "1.00, published 1.50 (−0.50)",
        ),
    ],
)
def test_readers_see_each_quantity(estimate, expected):
    _, _, line, *_ = to_text(table_of_cells(estimate)).splitlines()

    assert line.removeprefix("a").strip() == expected


@pytest.mark.parametrize(
    ("form", "value", "expected"),
    [
        ("number", -1.234, "−1.23"),
        ("number", -0.001, "0.00"),
        ("number", math.inf, "not finite"),
        ("signed", 1.0, "+1.00"),
        ("signed", -0.001, "±0.00"),
        ("count", 12000.0, "12,000"),
        ("p-value", 0.0001, "< 0.001"),
    ],
)
def test_a_column_prints_its_numbers_in_its_form(form, value, expected):
    assert Column("x", form=form).text(value) == expected
    assert Column("x", form=form).text(None) == "–"


def test_text_stands_in_columns_with_the_best_starred(results):
    title, header, first, mean, *_ = to_text(results).splitlines()

    assert title == "toy: transfer (accuracy; p)"
    assert header.split() == ["pooler", "MR", "CR", "Avg"]
    assert first.startswith("first (baseline)  ")
    assert re.search(r" 81\.00\* ± 1\.41†, published 81\.05 ", mean)
    assert len(header) == len(first) == len(mean)


def test_markdown_keeps_its_columns_whatever_a_label_says(results):
    lines = [line for line in to_markdown(results).splitlines() if line.startswith("|")]

    assert [len(re.findall(r"(?<!\\)\|", line)) for line in lines] == [5] * 5
    assert lines[1] == "| --- | --: | --: | --: |"
    assert (
        lines[2]
        == "| first (baseline) | *50.50* ± 0.71 | *60.50* ± 0.71 | *55.50* ± 0.71 |"
    )
    assert lines[4].startswith(r'| odd \& 50% \| \<b\>\_x\_\</b\> \\ "q" | ')

    links = to_markdown(table_of_cells(Link("done", "a b.html"), None))

    assert "| a | [done](<a b.html>) | – |" in links


def test_a_fence_is_longer_than_any_in_its_text():
    assert fenced("a\n````\n", "toml") == "`````toml\na\n````\n`````"


def test_a_row_of_a_page_is_sorted_by_more_digits_than_it_shows(results):
    html = to_html(results)

    assert re.findall(r'<tr data-cell="(\w+)"', html)[:2] == ["first", "mean"]
    assert re.findall(r'<td class="n" data-value="([-\d.]+)"', html) == [
        *("50.5", "60.5", "55.5", "81", "90", "85.5", "49.5", "-2", "23.75"),
    ]
    assert '<small class="tag">baseline</small>' in html
    assert html.count("<b>") == 3


@pytest.mark.parametrize(
    ("direction", "kind"), [("higher", "better"), ("lower", "worse"), ("none", "")]
)
def test_the_mark_of_a_difference_says_which_way_it_is_better(direction, kind):
    column = Column("MR", direction=direction, reference="base")
    html = to_html(table_of_cells(Estimate(value=1.0, judged=BETTER), columns=[column]))
    hint = (
        "+3.00 against base\n95 % interval 1.00 to 5.00\n"
        "p after Holm&#39;s correction 0.004\nover seeds"
    )

    assert f'<span class="mark {kind}" title="{hint}">‡</span>' in html


def test_nothing_that_is_typed_is_html():
    column = Column(ATTACK, heading=ATTACK, group=ATTACK)
    cells = (Estimate(value=1.0, degenerate=ATTACK), ATTACK, Link(ATTACK, ATTACK))
    row = Row((ATTACK,), cells, (ATTACK,), ATTACK)
    rows = (row, attrs.evolve(row, is_reference=True))
    html = to_html(Table(ATTACK, (Header(ATTACK),), (column,) * 3, rows, (ATTACK,)))

    assert not re.search(r"<(script|img)", html)
    # A quote that would end an attribute is escaped within it.
    assert not re.search(r'="[^"]*<', html)
    assert html.count("onerror") > 10


def test_latex_aligns_numbers_and_marks_the_best(results):
    latex = to_latex(results)
    check_latex(latex)

    assert latex.startswith(
        "% Needs \\usepackage{booktabs,siunitx,threeparttable}\n\\begin{table}"
    )

    # MR, CR (with a negative number) and the average, each with a column for what stands beside it.
    number = r"S[table-format={}2.2]@{{\,}}l"
    formats = "".join(number.format(sign) for sign in ("", "-", ""))

    assert rf"\begin{{tabular}}{{l{formats}}}" in latex

    head, first, mean, odd = cells_of_latex(latex)

    assert head[:3] == ["Pooler", r"\multicolumn{2}{c}{MR}", ""]
    assert first[:3] == [
        "first (baseline)",
        r"{\underline{50.50}}",
        r"{\scriptsize $\pm$ 0.71}",
    ]
    assert mean[1:3] == [r"{\textbf{81.00}}", r"{\scriptsize $\pm$ 1.41}$^{\dagger}$"]
    assert odd[3] == "-2.00"


def test_latex_has_columns_of_text_and_spans_the_page_if_it_is_wide():
    cells = [Estimate(value=float(place)) for place in range(5)]
    table = table_of_cells(*cells, Link("w_1", "x.html"))
    latex = to_latex(attrs.evolve(table, name="My table_2", study="Poolers"))
    check_latex(latex)

    assert r"\begin{table*}" in latex
    assert r"\label{tab:poolers-my-table-2}" in latex

    head, row = cells_of_latex(latex)

    assert len(head) == len(row) == 12
    assert row[-1] == r"w\_1"


@pytest.mark.parametrize("label", ["[x]", "a\\\\b", "$x$", "a~b^c", "{", "100 %", "#1"])
def test_nothing_that_is_typed_is_latex(results, label):
    first, *others = results.rows
    row = attrs.evolve(first, headers=(*first.headers[:-1], label))
    latex = to_latex(attrs.evolve(results, rows=(row, *others)))
    check_latex(latex)

    assert {len(cells) for cells in cells_of_latex(latex)} == {7}
