"""Render the tables of `paper_tables.py` as Markdown, LaTeX, CSV or text."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from sentbed.errors import printable
from sentbed.helpers import write_atomic
from sentbed.protocols import Score

from sentbed_report.markdown import escape, markdown_table
from sentbed_report.paper_tables import PaperTable, paper_tables
from sentbed_report.wording import MINUS, number

DIRECTORY = "tables"


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
            content = form(table).encode("utf-8", "backslashreplace")
            write_atomic(run / DIRECTORY / f"{numbered}.{suffix}", content)


def to_markdown(table: PaperTable) -> str:
    """Return a table of Markdown with the best value bold."""
    marks = ("**{}**", "{}", "{}")
    heading = ["encoder", *map(escape, table.headings)]
    rows = ([escape(row), *cells] for row, cells in _rows(table, marks))
    rendered = markdown_table(heading, rows, numbers=range(1, len(heading)))
    return f"{rendered}\n\n{escape(table.note)}\n"


def to_latex(table: PaperTable) -> str:
    """Return a `tabular` for the package booktabs: the best value bold, the second best underlined."""
    marks = (r"\textbf{{{}}}", r"\underline{{{}}}", "{}")
    body = [
        " & ".join(["Encoder", *map(latex, table.headings)]) + r" \\",
        r"\midrule",
        *(
            " & ".join([latex(row), *(cell.replace(MINUS, "$-$").replace("–", "--") for cell in cells)])
            + r" \\"
            for row, cells in _rows(table, marks)
        ),
    ]
    return "\n".join(
        [
            f"% {' '.join(table.note.split())}",
            rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}",
            r"\toprule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters of cells that spreadsheets treat as formulas."""


def harmless(value: object) -> object:
    """Return a value for CSV, with an apostrophe before text that spreadsheets would treat as a formula."""
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


def to_csv(table: PaperTable) -> str:
    """Return comma-separated values with all their digits; empty where there is none."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["encoder", *map(harmless, table.headings)])
    for index, row in enumerate(table.encoders):
        writer.writerow([harmless(row), *(column.values[index] for column in table.columns)])
    return stream.getvalue()


def to_long_csv(tables: Sequence[PaperTable]) -> str:
    """Return comma-separated values of several tables, one value a line."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["evaluator", "protocol", "encoder", "task", "metric", "value"])
    for table in tables:
        for column in table.columns:
            for encoder, value in zip(table.encoders, column.values, strict=True):
                about = (table.evaluator, table.protocol, encoder, column.task, column.metric)
                writer.writerow([*map(harmless, about), value])
    return stream.getvalue()


def to_text(table: PaperTable) -> str:
    """Return aligned columns for a terminal."""
    rows = [
        ("", *table.headings),
        *((row, *cells) for row, cells in _rows(table, ("{}",) * 3)),
    ]
    return "\n".join([table.note, *aligned(rows), ""])


FORMATS: dict[str, Callable[[PaperTable], str]] = {
    "text": to_text,
    "markdown": to_markdown,
    "latex": to_latex,
    "csv": to_csv,
}


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


def _rows(table: PaperTable, marks: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each encoder with its cells; `marks` are of the best, the second best and all other values."""
    nowhere = (None,) * len(table.encoders)
    places = [nowhere if column.plotted else column.places(table.digits) for column in table.columns]
    for index, encoder in enumerate(table.encoders):
        cells = []
        for column, ranks in zip(table.columns, places, strict=True):
            rank = ranks[index]
            cells.append(
                marks[2 if rank is None else rank].format(number(column.values[index], table.digits))
            )
        yield encoder, cells
