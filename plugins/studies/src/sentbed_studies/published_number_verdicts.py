"""Verdicts on the published numbers of a study's cells: whether the measured numbers reproduce them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import attrs
from sentbed_report.formatting import count, expected_digits, signed
from sentbed_report.formatting import number as formatted
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.published_number_comparison import Number, published_numbers
from sentbed_report.study.study_data import StudyData
from sentbed_report.tables.terminal import aligned

WITHIN = "within"
NOT_WITHIN = "not within"
NOT_MEASURED = "not measured"
"""Verdict on a published number that the study has not measured. If it has, the number is within or not within
the tolerance."""
CONTRADICTED = "contradicted"
"""Verdict on a published number that is known to be wrong, for example since another paper prints another number.
The cell is then expected to miss it. See `Published.contradicted`."""


def numbers_of(data: StudyData) -> tuple[Number, ...]:
    """Return the published numbers of the cells that have a finished run, each with the measured number."""
    finished = set()
    for cell in data.cells:
        if any(run.status == "finished" for run in cell.runs):
            finished.add(cell.name)

    # Without a baseline, `summarise` does not resample items, which would take long.
    summaries = summarise(attrs.evolve(data, baseline=None))
    numbers = published_numbers(data, summaries)
    return tuple(number for number in numbers if number.cell in finished)


def verdict(number: Number) -> str:
    """Return the verdict on a number: whether it was reproduced, in a few words."""
    row = number.row
    if row.found is None:
        return NOT_MEASURED if row.fits == 1 else f"the key fits {row.fits} scores"

    if row.contradicted:
        return CONTRADICTED

    if row.tolerance is None:
        return "shown only"
    return WITHIN if row.met else NOT_WITHIN


def comparison(numbers: Sequence[Number]) -> Iterator[str]:
    """Yield the lines of a table: our number, the published number, difference, tolerance and verdict.

    Lines with the counts of verdicts, and with the reasons of contradicted numbers, follow.
    """
    rows = [("cell", "score", "ours", "theirs", "difference", "tolerance", "")]
    verdicts: Counter[str] = Counter()
    decided = 0
    reasons: dict[str, None] = {}
    for number in numbers:
        row = number.row
        digits = expected_digits(row)
        tolerance = ""
        if row.tolerance is not None:
            tolerance = formatted(row.tolerance, digits)
        ours, theirs = formatted(row.found, digits), formatted(row.value, digits)
        difference = signed(row.difference, digits)
        word = verdict(number)
        rows.append((number.cell, row.key, ours, theirs, difference, tolerance, word))

        verdicts[word] += 1
        if _decides(number):
            decided += 1
        if word == CONTRADICTED:
            reason = f"{CONTRADICTED}: {row.source}, {number.cell}: {row.contradicted}"
            reasons[reason] = None

    yield from aligned(rows, left=2)

    line = f"{verdicts[WITHIN]} of {count(decided, 'number')} within their tolerance"
    if verdicts[NOT_MEASURED]:
        line += f"; {verdicts[NOT_MEASURED]} not measured"
    if verdicts[CONTRADICTED]:
        line += f"; {verdicts[CONTRADICTED]} contradicted, which do not count"
    yield line
    yield from reasons


def missed(numbers: Sequence[Number]) -> bool:
    """Whether one of the numbers that must be reproduced (`_decides`) was not."""
    return any(_decides(number) and verdict(number) != WITHIN for number in numbers)


def _decides(number: Number) -> bool:
    """Whether a number counts: it has a tolerance, and it was measured or its key wrongly fits several scores."""
    return number.row.decides and (number.row.found is not None or number.row.fits > 1)
