"""Tests between the rows of a study's tables: with the baseline in each column, and of all pairs in the last one.

All tests of a column are one family for Holm's correction. Marks, ranks and the cells that the best one does not
beat are read from these tests alone, so that they cannot contradict each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TypeAlias

import attrs
from sentbed.protocols import START

from sentbed_report.statistics.difference import Judged, corrected, judge
from sentbed_report.study.rank_groups import MOST_ROWS
from sentbed_report.study.scored_columns import ScoredColumn
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_row import Pair, RowKey, SummaryRow
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.estimate import Estimate

_Place: TypeAlias = tuple[int, int, Pair]
"""Index of a table, index of a column in it, and the two rows of a test there."""


def rows_of_baseline(
    data: StudyData, columns: Sequence[ScoredColumn]
) -> dict[RowKey, RowKey]:
    """Return row -> row of the baseline with which it is compared.

    A row is compared with the baseline's row of the same encoder. If the baseline has no such row, it is
    compared with the baseline's only row of a trained encoder. It is not compared if there are several.
    """
    if data.baseline is None:
        return {}

    rows: dict[RowKey, None] = {}
    for scored in columns:
        rows |= dict.fromkeys(scored.tested)
    encoders_of_baseline = []
    trained = []
    for cell, encoder in rows:
        if cell == data.baseline:
            encoders_of_baseline.append(encoder)
            if not encoder.endswith(START):
                trained.append(encoder)
    trained = trained or encoders_of_baseline

    references = {}
    for cell, encoder in rows:
        if cell == data.baseline:
            continue
        if encoder in encoders_of_baseline:
            references[cell, encoder] = (data.baseline, encoder)
        elif len(trained) == 1 and not encoder.endswith(START):
            references[cell, encoder] = (data.baseline, trained[0])
    return references


def tests_of_columns(
    data: StudyData,
    columns: Sequence[ScoredColumn],
    references: Mapping[RowKey, RowKey],
    ranked: Sequence[SummaryRow],
) -> tuple[dict[Pair, Judged], ...]:
    """Return the tests of each column, before any correction.

    `references` are the rows of the baseline with which rows are compared, `ranked` the rows that are compared
    with each other in the last column.
    """
    tests_of_columns = []
    for scored in columns:
        pairs: dict[Pair, None] = {}
        if not scored.column.cost:
            for row, reference in references.items():
                pairs[reference, row] = None
        if scored is columns[-1] and len(ranked) <= MOST_ROWS:
            for first, second in combinations(ranked, 2):
                if (second.key, first.key) not in pairs:
                    pairs[first.key, second.key] = None

        tests = {}
        for pair in pairs:
            before, after = map(scored.tested.get, pair)
            if before is not None and after is not None:
                terms = [(-1.0, before), (1.0, after)]
                tests[pair] = judge(terms, data.random)
        tests_of_columns.append(tests)
    return tuple(tests_of_columns)


def with_corrections(data: StudyData, summaries: Sequence[Summary]) -> list[Summary]:
    """Return the tables with corrected p-values (Holm, 1979), and with each row's test against the baseline.

    `StudyData.family` says which p-values are corrected together.
    """
    families: defaultdict[tuple[int, ...], dict[_Place, Judged]] = defaultdict(dict)
    planned = set()
    for table, summary in enumerate(summaries):
        for column, tests in enumerate(summary.tests):
            family: tuple[int, ...] = ()
            if data.family == "column":
                family = (table, column)
            for pair, test in tests.items():
                place = (table, column, pair)
                families[family][place] = test
                before, after = pair
                if summary.compared_with.get(after) == before:
                    planned.add(place)

    results: dict[_Place, Judged] = {}
    for tests_of_family in families.values():
        results |= corrected(tests_of_family, planned)

    changed = []
    for table, summary in enumerate(summaries):
        tests_of_columns = []
        for column, tests in enumerate(summary.tests):
            corrected_tests = {}
            for pair in tests:
                corrected_tests[pair] = results[table, column, pair]
            tests_of_columns.append(corrected_tests)
        changed.append(_with_tests(summary, tests_of_columns))
    return changed


def _with_tests(
    summary: Summary, tests_of_columns: Sequence[Mapping[Pair, Judged]]
) -> Summary:
    """Return the table with these tests, and with each row's test against the baseline in its estimates."""
    rows = []
    for row in summary.rows:
        reference = summary.compared_with.get(row.key)
        cells: list[Estimate] = []
        for estimate, tests in zip(row.cells, tests_of_columns, strict=True):
            judged = None
            if reference is not None:
                judged = tests.get((reference, row.key))
            cells.append(attrs.evolve(estimate, judged=judged))
        rows.append(attrs.evolve(row, cells=tuple(cells)))
    return attrs.evolve(summary, rows=tuple(rows), tests=tuple(tests_of_columns))
