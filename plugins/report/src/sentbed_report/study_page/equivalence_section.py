"""Section "Equivalence": which cells are as good as the baseline, up to the study's margin."""

from __future__ import annotations

from collections.abc import Sequence

from sentbed_report.format_independent_table import sign_of
from sentbed_report.formatting import probability, signed, spread
from sentbed_report.statistics.equivalence import CONFIDENCE, Equivalence
from sentbed_report.study.equivalence import equivalences, key_of
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary, SummaryRow, title_of
from sentbed_report.study_page.sections import Section, SectionRow, SectionTable


def equivalence_section(data: StudyData, summaries: Sequence[Summary]) -> Section | None:
    """Return the section, or None if the study has no margin or nothing was compared."""
    found = [(summary, tests) for summary in summaries if (tests := equivalences(summary))]
    if data.equivalence is None or not found:
        return None
    margin = f"{data.equivalence:g}"
    headings = (
        *("cell", "difference", f"{100 * CONFIDENCE:g} % interval"),
        *(f"no worse by more than {margin}", f"equivalent within {margin}"),
    )
    tables = [
        SectionTable(
            title_of(summary),
            headings,
            tuple(_row(row, tests[key_of(row)], summary) for row in summary.rows if key_of(row) in tests),
            (1, 2, 3, 4),
        )
        for summary, tests in found
    ]
    return Section(
        "Equivalence",
        (
            f"Tests against {data.baseline} with a margin of {margin} in the unit of the score, over seeds "
            "and items as in the tables. No worse: one one-sided test. Equivalent: two one-sided tests "
            "(TOST), of which the larger p-value counts. Each question is corrected over the cells of its "
            "table (Holm).",
        ),
        tuple(tables),
        (
            "† p < 0.05, ‡ p < 0.01: the claim is shown. Without a sign it is not, and neither is its "
            "opposite. The interval belongs to the tests at a level of 0.05 before correction: a cell is "
            "equivalent if it lies within the margin.",
        ),
    )


def _row(row: SummaryRow, test: Equivalence, summary: Summary) -> SectionRow:
    judged = row.cells[-1].judged
    difference = None if judged is None else judged.difference
    interval = spread((test.low, test.high), summary.digits)
    claims = (test.corrected_no_worse, test.corrected_equivalent)
    entries = (signed(difference, summary.digits), interval, *map(_claim, claims))
    return SectionRow(row.name, entries, row.cell)


def _claim(p_value: float) -> str:
    text = probability(p_value)
    related = text if text.startswith("<") else f"= {text}"
    return f"p {related} {sign_of(p_value)}".rstrip()
