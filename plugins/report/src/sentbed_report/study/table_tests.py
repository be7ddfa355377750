"""Tests between the rows of a study's tables: with the baseline in each column, and of all pairs in the last one.

All tests of a column are one family for Holm's correction. Marks, ranks and the cells that the best one does not
beat are read from these tests alone, so that they cannot contradict each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from typing import TypeAlias

from sentbed.protocols import START

from sentbed_report.statistics.difference import Judged, corrected, judge
from sentbed_report.study.rank_groups import MOST_ROWS
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_row import Pair
from sentbed_report.study.summary_tables import Summary

_Test: TypeAlias = tuple[int, int, Pair]
"""Index of a table, index of a column in it, and the two rows of a test there."""


def add_tests(data: StudyData, tables: Sequence[Summary]) -> None:
    """Add the tests of their rows to tables, with corrected p-values (Holm, 1979).

    The p-values of a column are corrected together. If the rows of a table are compared with each other, the
    comparisons with the baseline have one half of the level.
    """
    families: defaultdict[object, dict[_Test, Judged]] = defaultdict(dict)
    planned: set[_Test] = set()
    for number, table in enumerate(tables):
        for place, column in enumerate(table.columns):
            pairs: list[Pair] = []
            if column.tested:
                pairs += _pairs_with_baseline(table)

            for pair in pairs:
                planned.add((number, place, pair))

            if table.all_pairs and column is table.columns[-1]:
                pairs += _other_pairs(table, pairs)

            for pair in pairs:
                first, second = map(table.row, pair)
                before = first.cells[place].scores
                after = second.cells[place].scores
                if before is None or after is None:
                    continue
                # Only runs that were not started as a study are compared whatever their seeds.
                if data.axes and set(before.seeds).isdisjoint(after.seeds):
                    judged = Judged(reason="the cells have no seed in common")
                else:
                    judged = judge([(-1.0, before), (1.0, after)])
                families[number, place][number, place, pair] = judged

    for tests in families.values():
        for test, judged in corrected(tests, planned).items():
            number, place, pair = test
            table = tables[number]
            if test in planned:
                row = table.row(pair[1])
                row.cells[place].judged = judged
            if place == len(table.columns) - 1:
                table.tests[pair] = judged


def _pairs_with_baseline(table: Summary) -> list[Pair]:
    """Return the pairs of a row of the baseline and a row that is compared with it.

    A row is compared with the baseline's row of the same encoder. If the baseline has no such row, it is
    compared with the baseline's only row of a trained encoder. It is not compared if there are several.
    """
    encoders = []
    trained = []
    for row in table.rows:
        if row.cell != table.baseline:
            continue
        encoders.append(row.encoder)
        if not row.encoder.endswith(START):
            trained.append(row.encoder)
    trained = trained or encoders

    pairs: list[Pair] = []
    for row in table.rows:
        if table.baseline is None or row.cell == table.baseline:
            continue
        if row.encoder in encoders:
            pairs.append(((table.baseline, row.encoder), row.key))
        elif len(trained) == 1 and not row.encoder.endswith(START):
            pairs.append(((table.baseline, trained[0]), row.key))
    return pairs


def _other_pairs(table: Summary, pairs: Sequence[Pair]) -> list[Pair]:
    """Return all pairs of rows to compare in the last column, without `pairs`; none if there are too many."""
    rows = []
    for row in table.rows:
        if not row.why_not_compared:
            rows.append(row.key)

    if table.metric or not table.columns[-1].ranked or len(rows) > MOST_ROWS:
        return []

    others: list[Pair] = []
    for before, after in combinations(rows, 2):
        if (before, after) not in pairs and (after, before) not in pairs:
            others.append((before, after))
    return others
