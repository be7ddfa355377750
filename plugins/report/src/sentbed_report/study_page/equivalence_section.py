"""Section "Equivalence": which cells are shown to be as good as the baseline, up to the study's margin."""

from __future__ import annotations

from collections.abc import Sequence

from sentbed_report.formatting import count, related_probability, sign_of
from sentbed_report.page.sections import Section, table_of
from sentbed_report.statistics.equivalence import CONFIDENCE
from sentbed_report.study.study_data import StudyData, sources_of_tests
from sentbed_report.study.summary_tables import Summary, title_of
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Table


def equivalence_section(
    data: StudyData, summaries: Sequence[Summary]
) -> Section | None:
    """Return the section; None if the study has no margin of equivalence, or if no cells were compared."""
    if data.equivalence is None:
        return None

    tables = []
    compared = []
    for summary in summaries:
        table = _table(summary)
        if table.rows:
            tables.append(table)
            compared.append(summary)
    if not tables:
        return None

    first = compared[0]
    cells = count(_number_no_worse(first), "cell")
    line = (
        f"{cells} shown to be no worse than {data.baseline} by {data.equivalence:g} in "
        f"{title_of(first)}"
    )
    sentence = (
        f"Tests against {data.baseline} with a margin of {data.equivalence:g} in the unit of the score, "
        f"over {sources_of_tests(data)} as in the tables. No worse: one one-sided test. Equivalent: two "
        "one-sided tests (TOST), of which the larger p-value counts. Each question is corrected over the "
        "cells of its table (Holm)."
    )
    note = (
        "† p < 0.05, ‡ p < 0.01: the claim is shown. Without a sign, neither the claim nor its opposite is "
        f"shown. The interval, of {100 * CONFIDENCE:g} %, belongs to the tests at a level of 0.05 before "
        "correction: a cell is equivalent if its interval lies within the margin."
    )
    return Section("Equivalence", line, (sentence,), tables, (note,))


def _number_no_worse(summary: Summary) -> int:
    cells = set()
    for row in summary.rows:
        test = row.cells[-1].equivalence
        if test is not None and sign_of(test.corrected_no_worse):
            cells.add(row.cell)
    return len(cells)


def _table(summary: Summary) -> Table:
    margin = f"{summary.equivalence or 0:g}"
    rows = []
    for row in summary.rows:
        test, judged = row.cells[-1].equivalence, row.cells[-1].judged
        if test is None or judged is None:
            continue
        difference = Estimate(value=judged.difference, interval=(test.low, test.high))
        no_worse = _claim(test.corrected_no_worse)
        equivalent = _claim(test.corrected_equivalent)
        rows.append((row, difference, no_worse, equivalent))
    columns = (
        Column("difference", form="signed", digits=summary.digits),
        f"no worse by more than {margin}",
        f"equivalent within {margin}",
    )
    return table_of(title_of(summary), ["cell"], columns, rows)


def _claim(p_value: float) -> str:
    return f"p {related_probability(p_value)} {sign_of(p_value)}".rstrip()
