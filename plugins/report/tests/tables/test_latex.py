from __future__ import annotations

import re

import attrs
import pytest
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.study_data import AxisInfo
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.latex import to_latex
from sentbed_report.tables.table import Header, Link, Row, Table


def rows_of(latex):
    """Return the cells of each row; those of several columns are as many."""
    rows = []
    for line in re.findall(r"^(.*?) *\\\\$", latex, re.MULTILINE):
        cells = []
        for cell in re.split(r"(?<!\\)&", line):
            span = re.match(r" *\\multicolumn\{(\d)\}", cell)
            width = 1 if span is None else int(span[1])
            cells += [cell.strip()] + [""] * (width - 1)
        rows.append(cells)

    return rows


def check_structure(latex):
    """Check that braces, mathematics and environments are balanced and that no special sign stands bare."""
    text = re.sub(r"\\[\\{}&%#$_]|^%.*$", "", latex, flags=re.MULTILINE)
    assert not re.search(r"[%#~^_]", re.sub(r"\$\^\{[^}]*\}\$", "", text))
    depth = 0
    for sign in text:
        depth += {"{": 1, "}": -1}.get(sign, 0)
        assert depth >= 0

    assert depth == 0
    assert text.count("$") % 2 == 0
    assert text.isascii()
    opened = []
    for kind, name in re.findall(r"\\(begin|end)\{([\w*]+)\}", latex):
        if kind == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name

    assert opened == []


def test_numbers_are_aligned_by_siunitx_and_each_row_has_all_columns(results):
    latex = to_latex(results)
    check_structure(latex)
    assert latex.startswith(
        "% Needs \\usepackage{booktabs,siunitx,threeparttable}\n\\begin{table}"
    )
    # MR, CR (with a negative number) and the average, each with a column for what stands beside it.
    number = r"S[table-format={}2.2]@{{\,}}l"
    formats = "".join(number.format(sign) for sign in ("", "-", ""))
    assert rf"\begin{{tabular}}{{l{formats}}}" in latex
    assert {len(cells) for cells in rows_of(latex)} == {7}
    rules = [latex.index(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")]
    assert rules == sorted(rules)


def test_best_second_deviation_and_significance_are_marked(results):
    head, first, mean, odd = rows_of(to_latex(results))
    assert head == [
        "Pooler",
        r"\multicolumn{2}{c}{MR}",
        "",
        r"\multicolumn{2}{c}{CR}",
        "",
        head[5],
        "",
    ]
    assert first[:3] == [
        "first (baseline)",
        r"{\underline{50.50}}",
        r"{\scriptsize $\pm$ 0.71}",
    ]
    assert mean[1:3] == [r"{\textbf{81.00}}", r"{\scriptsize $\pm$ 1.41}$^{\dagger}$"]
    assert odd[0] == (
        r"odd \& 50\% \textbar{} \textless{}b\textgreater{}\_x\_\textless{}/b\textgreater{} "
        r'\textbackslash{} "q"'
    )
    assert odd[3] == "-2.00"


def test_each_axis_has_a_column(study_of):
    axes = [AxisInfo("pooler", ("first", "mean")), AxisInfo("rate", ("1", "2"))]
    numbers = {
        f"{pooler}, {rate}": {1: {"MR": 1.0}}
        for pooler in axes[0].labels
        for rate in axes[1].labels
    }
    (summary,) = summarise(study_of(numbers, axes))
    latex = to_latex(summary.table)
    assert [cells[:2] for cells in rows_of(latex)[:3]] == [
        ["Pooler", "Rate"],
        ["first", "1"],
        ["first", "2"],
    ]
    assert r"\begin{tabular}{llS" in latex


def test_columns_of_text_groups_and_wide_tables():
    groups = ("a", "a", "a", "b", "b")
    columns = tuple(
        Column(f"T{place}", group=group) for place, group in enumerate(groups)
    )
    words = Column("word")
    cells = (
        *(Estimate(value=float(place)) for place in range(5)),
        Link("w_1", "x.html"),
    )
    table = Table(
        "t",
        (Header("cell"),),
        (*columns, words),
        (Row(("a",), cells),),
        name="My table_2",
    )
    latex = to_latex(table)
    check_structure(latex)
    assert r"\begin{table*}" in latex
    assert r"\label{tab:my-table-2}" in latex
    assert r"\label{tab:poolers-my-table-2}" in to_latex(
        attrs.evolve(table, study="Poolers")
    )
    groups, head, row = rows_of(latex)
    assert [groups[1], groups[7]] == [
        r"\multicolumn{6}{c}{a}",
        r"\multicolumn{4}{c}{b}",
    ]
    assert len(head) == len(row) == 12
    assert row[-1] == r"w\_1"


@pytest.mark.parametrize("label", ["[x]", "a\\\\b", "$x$", "a~b^c", "{", "100 %", "#1"])
def test_what_is_typed_into_a_label_is_no_command(results, label):
    first, *others = results.rows
    row = attrs.evolve(first, headers=(*first.headers[:-1], label))
    latex = to_latex(attrs.evolve(results, rows=(row, *others)))
    check_structure(latex)
    assert {len(cells) for cells in rows_of(latex)} == {7}
