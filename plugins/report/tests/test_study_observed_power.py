from __future__ import annotations

import math

import pytest
from sentbed.protocols import Score
from sentbed_report.statistics.power import smallest_difference
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.observed_power import observed_power
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData
from toy_study import study


def of_numbers(numbers, baseline="base"):
    """A study of one task without items: cell -> seed -> score."""
    protocol = {"encoder": {}, "evaluator": {"id": "p"}}
    cells = []
    for name, seeds in numbers.items():
        runs = []
        for seed, value in seeds.items():
            score = Score("T", "m", value, protocol, "en", "e")
            runs.append(CellRun(name, seed, "finished", scores=(score,)))
        cells.append(CellInfo(name, {}, tuple(runs)))

    return StudyData("toy", (), tuple(cells), baseline, (1, 2, 3, 4))


TOY = of_numbers(
    {
        "base": {1: 70.0, 2: 70.0, 3: 70.0, 4: 70.0},
        "close": {
            1: 70.1,
            2: 70.3,
            3: 70.5,
            4: 70.7,
        },  # sum of squares 0.2 with 3 degrees
        "wild": {1: 69.0, 2: 72.0, 3: 70.0},  # 14 / 3 with 2 degrees
        "far": {1: 80.0, 2: 80.1, 3: 80.0, 4: 80.1},  # 0.01 with 3 degrees
        "once": {1: 71.0},
    }
)


def test_the_spread_over_seeds_is_pooled_by_its_degrees():
    (power,) = observed_power(summarise(TOY))
    assert power.spread.seed_std == pytest.approx(math.sqrt((0.2 + 14 / 3 + 0.01) / 8))
    assert (power.spread.item_std, power.spread.item_degrees) == (0, math.inf)
    # Most cells have four seeds; the cell with one has no test. The three share one half of the level.
    assert (power.seeds, power.comparisons, power.shares) == (4, 3, 6)


def test_the_spread_over_items_is_their_mean_variance():
    (summary, *_) = summarise(study())
    (power,) = observed_power([summary])
    variances = []
    for row in summary.rows:
        judged = row.cells[-1].judged
        if judged is not None:
            variances.append(judged.estimate.sources["items"].variance)
    assert len(variances) == 5
    assert (power.comparisons, power.shares) == (5, 10)
    assert power.spread.item_std == pytest.approx(math.sqrt(sum(variances) / 5))
    assert power.smallest(3) == smallest_difference(power.spread, 3, comparisons=10)
