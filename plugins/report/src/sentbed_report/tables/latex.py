"""Rendering of tables as LaTeX, with the packages booktabs, siunitx and threeparttable."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from sentbed_report.formatting import MINUS
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import DEGENERATE, Estimate
from sentbed_report.tables.shown import shown
from sentbed_report.tables.table import Row, Table, grouped_headings, legend, plain_text

WIDEST = 7
"""Maximum number of LaTeX columns of a table that fits into one column of a paper; a wider table spans the
page."""

_SIZES = {4: r"\small", 6: r"\footnotesize", 1000: r"\scriptsize"}
"""Maximum number of columns of a table -> font size of the table."""

_PLACES = {1: r"{{\textbf{{{}}}}}", 2: r"{{\underline{{{}}}}}", None: "{}"}

_SYMBOLS = {
    MINUS: "$-$",
    "–": "--",
    "±": r"$\pm$",
    "†": r"$^{\dagger}$",
    "‡": r"$^{\ddagger}$",
    DEGENERATE: r"$^{\diamond}$",
}

_SPECIAL = {
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
}

_ESCAPES = str.maketrans(_SPECIAL)


def to_latex(table: Table) -> str:
    """Return a `table` environment: a caption of one sentence, aligned numbers, and notes below.

    The best value is bold, the second best underlined. The label is `tab:` with the names of study and table.
    """
    numbers = [_numbers(table, index) for index in range(len(table.columns))]
    widths = [2] * len(numbers)
    for index, of_column in enumerate(numbers):
        if of_column is None:
            widths[index] = 1
    width = len(table.shown_headers) + sum(widths)
    environment = "table*" if width > WIDEST else "table"

    notes = []
    for note in (*table.notes, *legend(table, "Bold", "underlined")):
        notes.append(rf"  \item {latex(note)}")
    # A table without a name has a title that begins with the study's name.
    label = table.title
    if table.name:
        label = f"{table.study} {table.name}"
    lines = [
        "% Needs \\usepackage{booktabs,siunitx,threeparttable}",
        rf"\begin{{{environment}}}",
        r"\centering",
        next(size for most, size in _SIZES.items() if len(table.columns) <= most),
        r"\setlength{\tabcolsep}{3pt}",
        r"\begin{threeparttable}",
        rf"\caption{{{latex(table.title)}.}}",
        rf"\label{{tab:{reduced(label)}}}",
        rf"\begin{{tabular}}{{{_specification(table, numbers)}}}",
        r"\toprule",
        *_head(table, widths),
        r"\midrule",
        *_body(table, widths),
        r"\bottomrule",
        r"\end{tabular}",
        r"\begin{tablenotes}[flushleft]\footnotesize",
        *notes,
        r"\end{tablenotes}",
        r"\end{threeparttable}",
        rf"\end{{{environment}}}",
        "",
    ]
    # LaTeX refuses a list without items.
    if not notes:
        lines = [line for line in lines if "tablenotes" not in line]
    return _with_symbols("\n".join(lines))


def latex(text: str) -> str:
    """Return a text as one line, escaped for LaTeX."""
    line = " ".join(text.split())
    return line.translate(_ESCAPES)


def reduced(name: str) -> str:
    """Return a name in lower case; each run of characters other than letters and digits becomes `-`."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()


def _with_symbols(text: str) -> str:
    """Return text with LaTeX commands in place of superscripts and symbols."""

    def superscript(rank: re.Match[str]) -> str:
        return f"$^{{{unicodedata.normalize('NFKC', rank[0])}}}$"

    text = re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹]+", superscript, text)
    return re.sub("|".join(_SYMBOLS), lambda symbol: _SYMBOLS[symbol[0]], text)


def _specification(table: Table, numbers: Sequence[list[str] | None]) -> str:
    """Return the alignment of the LaTeX columns. After each column of numbers, there is one for marks."""
    parts = ["l" * len(table.shown_headers)]
    for column, of_column in zip(table.columns, numbers, strict=True):
        if of_column is None:
            parts.append("l")
        else:
            parts.append(
                rf"S[table-format={_number_format(of_column, column)}]@{{\,}}l"
            )
    return "".join(parts)


def _numbers(table: Table, index: int) -> list[str] | None:
    """Return the numbers of a column as printed; None for a text column."""
    texts: list[str] = []
    column = table.columns[index]
    if column.form not in ("number", "signed", "count"):
        return None
    for row in table.rows:
        cell = row.cells[index]
        if isinstance(cell, Estimate):
            texts.append(column.text(cell.value).replace(MINUS, "-").replace(",", ""))
        elif cell:
            return None
    return texts


def _number_format(numbers: list[str], column: Column) -> str:
    """Return the `table-format` of a siunitx column: sign, and digits before and after the point."""
    digits_before = 0
    sign = ""
    for text in numbers:
        if text.startswith(("+", "-", "±")):
            sign = "-"
        if text[-1:].isdigit():
            whole = text.partition(".")[0].lstrip("+-±")
            digits_before = max(digits_before, len(whole))
    digits_after = 0 if column.form == "count" else column.digits
    return f"{sign}{digits_before or 1}.{digits_after}"


def _head(table: Table, widths: Sequence[int]) -> list[str]:
    """Return the lines with the headings of groups and columns; for `widths` see `_body`."""
    lines = []
    groups = grouped_headings(table.columns)
    if groups:
        cells = [""] * len(table.shown_headers)
        start = 0
        for name, number_of_columns in groups:
            end = start + number_of_columns
            cells.append(_wide_cell(name, sum(widths[start:end])))
            start = end
        lines.append(_line(cells))

    headings = []
    for index in table.shown_headers:
        name = table.headers[index].name
        headings.append(latex(name.capitalize()))
    for column, width in zip(table.columns, widths, strict=True):
        if width == 2:
            headings.append(_wide_cell(column.heading, width))
        else:
            headings.append(latex(column.heading))
    lines.append(_line(headings))
    return lines


def _wide_cell(heading: str, width: int) -> str:
    """Return a heading that is centred over several LaTeX columns."""
    return rf"\multicolumn{{{width}}}{{c}}{{{latex(heading)}}}"


def _line(cells: Sequence[str]) -> str:
    """Return a line of a table."""
    return " & ".join(cells) + r" \\"


def _body(table: Table, widths: Sequence[int]) -> list[str]:
    """Return the lines with the rows; `widths` are the numbers of LaTeX columns that each column takes."""
    lines = []
    has_rule = False
    for row in table.rows:
        if row.is_reference and not has_rule:
            lines.append(r"\midrule")
            has_rule = True
        cells = list(map(latex, table.title_of(row)))
        for index, column in enumerate(table.columns):
            cells += _cells(row, index, column, widths[index] == 2)
        lines.append(_line(cells))
    return lines


def _cells(
    row: Row,
    index: int,
    column: Column,
    aligned: bool,
) -> list[str]:
    """Return the LaTeX cells of a cell: two if its column has aligned numbers, otherwise one."""
    cell = row.cells[index]
    if not isinstance(cell, Estimate):
        text = latex(plain_text(cell))
        if not aligned:
            return [text]
        # siunitx does not align a text in braces.
        return [f"{{{text}}}", ""]

    parts = shown(cell, column)
    text = parts.number
    rest = ""
    if parts.spread:
        rest = rf"{{\scriptsize {latex(parts.spread)}}}"
    rest += f"{parts.rank}{parts.sign}"
    if not aligned:
        return [f"{latex(text)} {rest}".rstrip()]

    number = text.replace(MINUS, "-").replace(",", "")
    if not number[-1:].isdigit() or number.startswith("±"):
        number = f"{{{text}}}"
    return [_PLACES[cell.place].format(number), rest]
