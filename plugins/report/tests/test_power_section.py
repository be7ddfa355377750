from __future__ import annotations

import math

import pytest
from sentbed_report.statistics.power import seeds_needed, smallest_difference
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study_page.power_section import observed_comparisons, power_table
from toy_study import study, study_of


def numbers(**cells):
    """Return cell -> seed -> task -> score."""
    of_cells = {}
    for name, values in cells.items():
        of_cells[name] = {}
        for seed, value in enumerate(values, start=1):
            of_cells[name][seed] = {"T": value}
    return of_cells


TOY = numbers(
    base=[70.0, 70.0, 70.0, 70.0],
    # Sum of squares 0.2 with 3 degrees.
    close=[70.1, 70.3, 70.5, 70.7],
    # 14 / 3 with 2 degrees.
    wild=[69.0, 72.0, 70.0],
    # 0.01 with 3 degrees.
    far=[80.0, 80.1, 80.0, 80.1],
    once=[71.0],
)


def test_the_spread_over_seeds_is_pooled_by_its_degrees():
    data = study_of(TOY, baseline="base")
    (comparisons,) = observed_comparisons(summarise(data))
    spread = comparisons.spread
    assert spread.seed_std == pytest.approx(math.sqrt((0.2 + 14 / 3 + 0.01) / 8))
    assert (spread.item_std, spread.item_degrees) == (0, math.inf)
    # Most cells have four seeds; the cell with one has no test. The three share one half of the level.
    assert (comparisons.seeds, comparisons.number) == (4, 3)
    assert comparisons.level == pytest.approx(0.05 / 6)

    table = power_table(comparisons, differences=[1.0, 1e-3])
    (row,) = table.rows
    cells = {}
    for column, cell in zip(table.columns, row.cells, strict=True):
        cells[column.heading] = cell
    level = comparisons.level
    for seeds in (4, 8, 16):
        least = smallest_difference(
            spread,
            seeds,
            level,
        )
        assert cells[f"{seeds} seeds"].value == least
    needed = seeds_needed(spread, 1.0, level)
    assert cells["seeds for 1"].value == needed
    assert cells["seeds for 0.001"] == "over 10,000"


def test_the_spread_over_items_is_their_mean_variance():
    (summary, *_) = summarise(study())
    (comparisons,) = observed_comparisons([summary])
    variances = []
    for row in summary.rows:
        judged = row.cells[-1].judged
        if judged is not None:
            variances.append(judged.estimate.sources["items"].variance)
    assert len(variances) == 5
    assert comparisons.number == 5
    assert comparisons.level == pytest.approx(0.05 / 10)
    assert comparisons.spread.item_std == pytest.approx(math.sqrt(sum(variances) / 5))
