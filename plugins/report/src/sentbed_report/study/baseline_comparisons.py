"""Comparisons of the rows of a study's tables with the baseline, and the correction of their p-values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
from sentbed.protocols import START

from sentbed_report.statistics.item_components import ComponentStore
from sentbed_report.statistics.significance import Judged, corrected, judge_cell
from sentbed_report.study.scored_columns import ScoredColumn
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_row import RowKey
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.estimate import Estimate


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


def with_comparisons(
    scored: ScoredColumn,
    references: Mapping[RowKey, RowKey],
    components: ComponentStore,
) -> ScoredColumn:
    """Return a column with each row's comparison with the baseline; p-values are not corrected yet."""
    if scored.column.cost:
        return scored
    estimates = dict(scored.estimates)
    for row, reference in references.items():
        before = scored.tested.get(reference, {})
        after = scored.tested.get(row, {})
        judged = judge_cell(before, after, components)
        estimates[row] = attrs.evolve(estimates.get(row, Estimate()), judged=judged)
    return attrs.evolve(scored, estimates=estimates)


def with_corrections(data: StudyData, summaries: Sequence[Summary]) -> list[Summary]:
    """Return the tables with corrected p-values (Holm, 1979).

    `StudyData.family` says which p-values are corrected together.
    """
    # Estimates are identified by `id`, since several cells of the table may have equal numbers.
    families: dict[tuple[int, ...], dict[int, Judged]] = {}
    for number_of_table, summary in enumerate(summaries):
        for row in summary.rows:
            for number_of_column, estimate in enumerate(row.cells):
                if estimate.judged is None:
                    continue
                family: tuple[int, ...] = ()
                if data.family == "column":
                    family = (number_of_table, number_of_column)
                families.setdefault(family, {})[id(estimate)] = estimate.judged

    judged: dict[int, Judged] = {}
    for comparisons in families.values():
        judged |= corrected(comparisons)

    def with_correction(estimate: Estimate) -> Estimate:
        return attrs.evolve(estimate, judged=judged.get(id(estimate)))

    tests = 0
    for test in judged.values():
        if test.p_value is not None:
            tests += 1
    result = []
    for summary in summaries:
        counted = attrs.evolve(summary, tests_in_study=tests)
        result.append(counted.with_estimates(with_correction))
    return result
