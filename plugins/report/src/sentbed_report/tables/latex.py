"""Rendering of tables as LaTeX, with the packages booktabs, siunitx and threeparttable."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from sentbed_report.formatting import MINUS
from sentbed_report.tables.estimate import DEGENERATE
from sentbed_report.tables.shown import (
    Shown,
    headings,
    legend,
    row_title,
    shown_cells,
)
from sentbed_report.tables.table import Table

_PLACES = ("{}", r"{{\textbf{{{}}}}}", r"{{\underline{{{}}}}}")

_TRANSLATIONS = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        # At the beginning of a row, LaTeX would read `[` as an optional argument of the rule above.
        "[": "{[}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        MINUS: "$-$",
        "–": "--",
        "±": r"$\pm$",
        "†": r"$^{\dagger}$",
        "‡": r"$^{\ddagger}$",
        DEGENERATE: r"$^{\diamond}$",
    }
)

_TEMPLATE = r"""% Needs \usepackage{{booktabs,siunitx,threeparttable}}
\begin{{{environment}}}
\centering
\setlength{{\tabcolsep}}{{3pt}}
\begin{{threeparttable}}
\caption{{{caption}.}}
\label{{tab:{label}}}
\begin{{tabular}}{{{columns}}}
\toprule
{head}
\midrule
{body}
\bottomrule
\end{{tabular}}
{notes}\end{{threeparttable}}
\end{{{environment}}}
"""

_NOTES = r"""\begin{{tablenotes}}[flushleft]\footnotesize
{items}
\end{{tablenotes}}
"""


def to_latex(table: Table) -> str:
    """Return a `table` environment: a caption of one sentence, aligned numbers, and notes below.

    The best value is bold, the second best underlined. A number takes two LaTeX columns: one that siunitx aligns,
    and one for what stands beside it. The label is `tab:` with the names of study and table.
    """
    rows = [shown_cells(table, row) for row in table.rows]
    by_column = list(zip(*rows, strict=True))
    numbers = []
    for of_column in by_column:
        numbers.append(any(cell.is_number for cell in of_column))

    body = []
    for row, cells in zip(table.rows, rows, strict=True):
        texts = list(map(latex, row_title(table, row)))
        for cell, is_number in zip(cells, numbers, strict=True):
            texts += _cells(cell, is_number)
        body.append(_line(texts))

    before, of_columns = headings(table)
    columns = "l" * len(before)
    head = [latex(name.capitalize()) for name in before]
    for heading, of_column, is_number in zip(
        of_columns, by_column, numbers, strict=True
    ):
        if is_number:
            columns += rf"S[table-format={_number_format(of_column)}]@{{\,}}l"
            head.append(rf"\multicolumn{{2}}{{c}}{{{latex(heading)}}}")
        else:
            columns += "l"
            head.append(latex(heading))

    items = []
    for note in (*table.notes, *legend(table, "Bold", "underlined")):
        items.append(rf"  \item {latex(note)}")
    notes = ""
    if items:
        notes = _NOTES.format(items="\n".join(items))
    # A table without a name has a title that begins with the study's name.
    label = table.title
    if table.name:
        label = f"{table.study} {table.name}"
    environment = "table"
    if len(of_columns) > 3:
        environment = "table*"
    return _TEMPLATE.format(
        environment=environment,
        caption=latex(table.title),
        label=reduced(label),
        columns=columns,
        head=_line(head),
        body="\n".join(body),
        notes=notes,
    )


def latex(text: str) -> str:
    """Return a text as one line, escaped for LaTeX."""
    line = " ".join(text.split()).translate(_TRANSLATIONS)
    return re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹]+", _superscript, line)


def _superscript(rank: re.Match[str]) -> str:
    return f"$^{{{unicodedata.normalize('NFKC', rank[0])}}}$"


def reduced(name: str) -> str:
    """Return a name in lower case; each run of characters other than letters and digits becomes `-`."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()


def _number_format(cells: Sequence[Shown]) -> str:
    """Return the `table-format` of a siunitx column: sign, and digits before and after the point."""
    before = after = 1
    sign = ""
    for cell in cells:
        number = re.fullmatch(r"([+−]?)([\d,]+)\.?(\d*)", cell.text)
        if number is not None:
            sign = "-" if number[1] else sign
            before = max(before, len(number[2].replace(",", "")))
            after = len(number[3])
    return f"{sign}{before}.{after}"


def _line(cells: Sequence[str]) -> str:
    """Return a line of a table."""
    return " & ".join(cells) + r" \\"


def _cells(cell: Shown, in_two: bool) -> list[str]:
    """Return the LaTeX cells of a cell: two in a column of numbers, otherwise one."""
    if not in_two:
        return [latex(cell.text)]
    beside = latex(cell.marks)
    if cell.spread:
        beside = rf"{{\scriptsize {latex(cell.spread)}}}{beside}"
    number = cell.text.replace(MINUS, "-").replace(",", "")
    if not re.fullmatch(r"[+-]?[\d.]+", number):
        # siunitx does not align a text in braces.
        return [f"{{{latex(cell.text)}}}", beside]
    return [_PLACES[cell.place].format(number), beside]
