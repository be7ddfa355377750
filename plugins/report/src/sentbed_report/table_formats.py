"""Formats of tables: Markdown, LaTeX, text, and CSV; files of a run's tables."""

from __future__ import annotations

import csv
import html
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from sentbed.errors import printable
from sentbed.helpers import write_atomic
from sentbed.protocols import Score

from sentbed_report.format_independent_table import DEGENERATE, Printable, PrintedCell, legend
from sentbed_report.formatting import MINUS
from sentbed_report.markdown_report import escape, markdown_table
from sentbed_report.paper_style_tables import PaperTable, paper_tables

DIRECTORY = "tables"

MARKDOWN = ("**{}**", "*{}*", "{}")
"""Marks of the best value, the second best and all others."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters of cells that spreadsheets treat as formulas."""

_SIGNS = {
    MINUS: "$-$",
    "–": "--",
    "±": r"$\pm$",
    "†": r"$^{\dagger}$",
    "‡": r"$^{\ddagger}$",
    DEGENERATE: r"$^{\diamond}$",
}
"""LaTeX for the symbols used in tables."""


def write_tables(run: Path, scores: Sequence[Score]) -> None:
    """Write `tables/EVALUATOR.md`, `.tex` and `.csv` into a run directory.

    A protocol that has a name of its own is in the file's, `geometry-st5.md`; a second table gets a number.

    Raises:
        RunError: where the disk is full.
    """
    names: Counter[str] = Counter()
    for table in paper_tables(((score.encoder, score) for score in scores), strict=False):
        own = "" if table.protocol in ("", table.evaluator) else f"-{table.protocol}"
        name = re.sub(r"[^A-Za-z0-9._-]", "_", table.evaluator + own)
        names[name] += 1
        numbered = name if names[name] == 1 else f"{name}-{names[name]}"
        for suffix, form in (("md", to_markdown), ("tex", to_latex), ("csv", to_csv)):
            write_atomic(run / DIRECTORY / f"{numbered}.{suffix}", form(table))


def to_text(table: Printable) -> str:
    """Return aligned columns for a terminal; `*` stands behind the best of a column."""
    found = table.printed
    rows = [("", *found.headings)]
    for row in found.rows:
        cells = (marked(cell, ("{}",) * 3) + "*" * (cell.place == 0) for cell in row.cells)
        rows.append((row.title, *cells))
    return "\n".join([found.note, *aligned(rows), *found.remarks, *legend(found, "*"), ""])


def to_markdown(table: Printable) -> str:
    """Return a table of Markdown: the best value bold, the second best in italics."""
    found = table.printed
    heading = [found.corner, *map(escape, found.headings)]
    rows = [[escape(row.title), *(marked(cell, MARKDOWN) for cell in row.cells)] for row in found.rows]
    blocks = [
        *([f"# {escape(found.title)}"] if found.title else []),
        markdown_table(heading, rows, numbers=range(1, len(heading))),
        escape(found.note),
        *map(escape, (*found.remarks, *legend(found, "Bold", "italics"))),
    ]
    return "\n\n".join(blocks) + "\n"


def to_latex(table: Printable, name: str = "") -> str:
    """Return a `table` for the package booktabs: the best value bold, the second best underlined.

    Its label is made of the table's title and `name`, or its note without one.
    """
    marks = (r"\textbf{{{}}}", r"\underline{{{}}}", "{}")
    found = table.printed
    body = []
    for row in found.rows:
        cells = (marked(cell, marks) for cell in row.cells)
        body.append(" & ".join([latex(row.title), *cells]) + r" \\")
        if any(row.below):
            body.append(" & ".join([r"\quad published", *row.below]) + r" \\")
    title = f"{found.title}: {found.note}." if found.title else f"{found.note}."
    said = [title, *found.remarks, *legend(found, "Bold", "underlined")]
    label = reduced(f"{found.title}-{name or found.note}")
    text = "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{' '.join(map(latex, said))}}}",
            rf"\label{{tab:{label}}}",
            rf"\begin{{tabular}}{{l{'r' * len(found.headings)}}}",
            r"\toprule",
            " & ".join([found.corner.capitalize(), *map(latex, found.headings)]) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )
    text = re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹]+", lambda rank: f"$^{{{unicodedata.normalize('NFKC', rank[0])}}}$", text)
    return re.sub("|".join(_SIGNS), lambda sign: _SIGNS[sign[0]], text)


def to_html(table: Printable) -> str:
    """Return a table of HTML without styles: the best value bold, the second best underlined."""
    found = table.printed
    marks = ("<b>{}</b>", "<u>{}</u>", "{}")
    head = "".join(f"<th>{html.escape(text)}</th>" for text in (found.corner, *found.headings))
    body = "".join(
        f"<tr><th>{html.escape(row.title)}</th>"
        + "".join(f"<td>{marked(cell, marks)}</td>" for cell in row.cells)
        + "</tr>"
        for row in found.rows
    )
    said = (*found.remarks, *legend(found, "Bold", "underlined"))
    notes = "".join(f"<p><small>{html.escape(text)}</small></p>" for text in said)
    caption = f"<caption>{html.escape(found.note)}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"


FORMATS: dict[str, Callable[[Printable], str]] = {
    "text": to_text,
    "markdown": to_markdown,
    "latex": to_latex,
}


def to_csv(table: PaperTable) -> str:
    """Return comma-separated values with all their digits; empty where there is none."""
    rows = (
        [row, *(column.values[index] for column in table.columns)] for index, row in enumerate(table.encoders)
    )
    return csv_text([["encoder", *table.headings], *rows])


def to_long_csv(tables: Sequence[PaperTable]) -> str:
    """Return comma-separated values of several tables, one value a line."""
    rows: list[list[object]] = [["evaluator", "protocol", "encoder", "task", "metric", "value"]]
    for table in tables:
        for column in table.columns:
            # An average over a part of the row is not that of another table.
            task = f"{column.task} ({column.part})" if column.part else column.task
            for encoder, value in zip(table.encoders, column.values, strict=True):
                rows.append([table.evaluator, table.protocol, encoder, task, column.metric, value])
    return csv_text(rows)


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Return comma-separated values; a text that a spreadsheet takes for a formula has an apostrophe."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([*map(_harmless, row)] for row in rows)
    return stream.getvalue()


def _harmless(value: object) -> object:
    if not isinstance(value, str):
        return value
    # The module csv puts no quotes around a carriage return, and readers begin a row at it.
    text = value.replace("\r", "\n")
    if not value.startswith(_FORMULA):
        return text
    try:
        float(value)
    except ValueError:
        return f"'{text}"
    return text


def marked(cell: PrintedCell, marks: Sequence[str]) -> str:
    """Return a number with its place, standard deviation and signs; `marks` are a format's for the places."""
    mean = marks[2 if cell.place is None else cell.place].format(cell.text)
    return f"{mean} ± {cell.spread}{cell.signs}" if cell.spread else f"{mean}{cell.signs}"


def reduced(name: str) -> str:
    """Return a name's letters and digits, in small letters, with `-` for all else."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()


def aligned(rows: Sequence[Sequence[str]], left: int = 1) -> Iterator[str]:
    """Yield rows with their columns below each other, the first `left` of them flush left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # At the beginning of a row it would be taken for an option of the rule above.
    "[": "{[}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def latex(text: str) -> str:
    """Return text that LaTeX prints as it is."""
    return "".join(_LATEX.get(sign, sign) for sign in " ".join(printable(text).split()))
