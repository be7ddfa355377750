"""Formats of a study's tables: Markdown, LaTeX, CSV, text."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence

from sentbed_report.markdown import escape, markdown_table
from sentbed_report.study.published_numbers import Number
from sentbed_report.study.summary import Measured, Summary, SummaryRow
from sentbed_report.table_formats import aligned, harmless, latex
from sentbed_report.wording import MINUS, number, signed

_VERY = 0.01
"""P-value below which a difference gets the mark ‡."""


_SIGNS = {MINUS: "$-$", "–": "--", "±": r"$\pm$", "†": r"$^{\dagger}$", "‡": r"$^{\ddagger}$"}
"""LaTeX for the symbols used in tables."""


def mark(cell: Measured) -> str:
    """Return † if the difference from the baseline is significant, ‡ if p is below 0.01."""
    judged = cell.judged
    if judged is None or judged.corrected is None or not judged.significant:
        return ""
    return "‡" if judged.corrected < _VERY else "†"


def deviation(cell: Measured, digits: int) -> str:
    """Return the standard deviation as text; empty if there is none, or it is not finite."""
    return "" if cell.std is None or not math.isfinite(cell.std) else number(cell.std, digits)


def names_of(summaries: Iterable[Summary], taken: Iterable[str] = ()) -> tuple[str, ...]:
    """Return a name for each table, for files and labels: evaluator, protocol, metric, and a number.

    They differ, also from those of `taken`, in letters and digits alone, whatever their case.
    """
    known, names = set(map(_reduced, taken)), []
    for summary in summaries:
        parts = [summary.evaluator]
        if summary.protocol not in ("", summary.evaluator):
            parts.append(summary.protocol)
        if summary.metric:
            parts.append(summary.metric)
        base = name = re.sub(r"[^A-Za-z0-9._-]", "_", "-".join(parts))
        times = 1
        while _reduced(name) in known:
            times += 1
            name = f"{base}-{times}"
        known.add(_reduced(name))
        names.append(name)
    return tuple(names)


def to_text(summary: Summary) -> str:
    """Return aligned columns for a terminal; `*` stands behind the best of a column."""
    rows = [("", *summary.headings)]
    for row in summary.rows:
        cells = (_marked(cell, summary.digits, ("{}",) * 3) + "*" * (cell.place == 0) for cell in row.cells)
        rows.append((_title(summary, row), *cells))
    return "\n".join([summary.note, *aligned(rows), *said(summary), ""])


def to_markdown(summary: Summary, published: Sequence[Number] = ()) -> str:
    """Return a table of Markdown, best bold, second best in italics; then what was published."""
    marks = ("**{}**", "*{}*", "{}")
    heading = ["cell", *map(escape, summary.headings)]
    rows = [
        [escape(_title(summary, row)), *(_marked(cell, summary.digits, marks) for cell in row.cells)]
        for row in summary.rows
    ]
    blocks = [
        f"# {escape(summary.study)}",
        markdown_table(heading, rows, numbers=range(1, len(heading))),
        escape(summary.note),
        *map(escape, said(summary)),
    ]
    if published:
        blocks.append(published_table(published))
    return "\n\n".join(blocks) + "\n"


def published_table(numbers: Iterable[Number]) -> str:
    """Return a Markdown table of published numbers with those found."""
    heading = ["cell", "number", "found", "published", "difference", "tolerance", "", "source"]
    return markdown_table(heading, map(_published, numbers), numbers=range(2, 6))


def to_latex(summary: Summary, name: str = "") -> str:
    """Return a `table` for the package booktabs: the best value bold, the second best underlined.

    Its label is made of the study's name and `name`, that of the table where it has none of its own.
    """
    marks = (r"\textbf{{{}}}", r"\underline{{{}}}", "{}")
    body = []
    for row in summary.rows:
        cells = (_marked(cell, summary.digits, marks) for cell in row.cells)
        body.append(" & ".join([latex(_title(summary, row)), *cells]) + r" \\")
        if any(cell.published for cell in row.cells):
            shown = (
                number(cell.published[0].value, cell.published[0].digits) if cell.published else ""
                for cell in row.cells
            )
            body.append(" & ".join([r"\quad published", *shown]) + r" \\")
    label = _reduced(f"{summary.study}-{name or names_of([summary])[0]}")
    caption = " ".join(map(latex, [f"{summary.study}: {summary.note}.", *said(summary)]))
    text = "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{caption}}}",
            rf"\label{{tab:{label}}}",
            rf"\begin{{tabular}}{{l{'r' * len(summary.columns)}}}",
            r"\toprule",
            " & ".join(["Cell", *map(latex, summary.headings)]) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )
    return re.sub("|".join(_SIGNS), lambda found: _SIGNS[found[0]], text)


def to_csv(summary: Summary) -> str:
    """Return comma-separated values with all their digits: for each column mean, std, seeds, p, published.

    Empty is what was not measured or not compared; `nan` and `inf` are scores that are not finite. A text
    that a spreadsheet would take for a formula has an apostrophe before it.
    """
    axes = list(dict.fromkeys(axis for row in summary.rows for axis in row.labels))
    about = ("mean", "std", "seeds", "difference", "corrected p", "published")
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    columns = [f"{heading} {what}" for heading in summary.headings for what in about]
    heading = ["cell", "encoder", "status", *(f"axis {axis}" for axis in axes), *columns]
    writer.writerow(map(harmless, heading))
    for row in summary.rows:
        line: list[object] = [row.cell, row.encoder, row.status, *(row.labels.get(axis) for axis in axes)]
        for cell in row.cells:
            judged = cell.judged
            line += [cell.mean, cell.std, len(cell.values)]
            line += [None, None] if judged is None else [judged.difference, judged.corrected]
            line.append(cell.published[0].value if cell.published else None)
        writer.writerow(map(harmless, line))
    return stream.getvalue()


def _title(summary: Summary, row: SummaryRow) -> str:
    words = [word for word in ("baseline" if row.cell == summary.baseline else "", row.remark) if word]
    return f"{row.name} ({'; '.join(words)})" if words else row.name


def said(summary: Summary) -> Iterator[str]:
    """Yield remarks on the numbers."""
    yield summary.over
    if summary.test:
        yield summary.test
    reasons: dict[str, dict[str, None]] = {}
    for row in summary.rows:
        for cell in row.cells:
            if cell.judged is not None and cell.judged.reason and cell.values:
                reasons.setdefault(cell.judged.reason, {})[row.name] = None
    for reason, names in reasons.items():
        yield f"Not judged everywhere ({', '.join(names)}): {reason}."


def _marked(cell: Measured, digits: int, marks: Sequence[str]) -> str:
    mean = marks[2 if cell.place is None else cell.place].format(number(cell.mean, digits))
    return with_deviation(mean, deviation(cell, digits), mark(cell))


def with_deviation(mean: str, spread: str, sign: str) -> str:
    """Return a mean with its standard deviation, if there is one, and its significance mark."""
    return f"{mean} ± {spread}{sign}" if spread else f"{mean}{sign}"


def _reduced(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()


def _published(one: Number) -> list[str]:
    row = one.row
    return [
        escape(one.cell),
        escape(row.key),
        number(row.found, row.digits),
        number(row.value, row.digits),
        signed(row.difference, row.digits),
        f"±{number(row.tolerance, row.digits)}" if row.decides else "–",
        f"**{row.verdict}**" if row.met is False else escape(row.verdict),
        escape(row.source),
    ]
