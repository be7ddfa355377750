from __future__ import annotations

import csv
import io
import json
import math

import attrs
import numpy as np
import pytest
from scipy import stats
from sentbed.protocols import Score
from sentbed_report.statistics.equivalence import equivalence_of
from sentbed_report.statistics.significance import Judged, holm, with_test
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.exports import to_json
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData
from sentbed_report.study_page.equivalence_section import equivalence_section
from sentbed_report.tables.comma_separated import to_csv
from sentbed_report.tables.estimate import Estimate
from statsmodels.stats.weightstats import ttost_paired

BASELINE = (80.0, 80.4, 79.9, 80.1)
CELLS = {
    "alike": (80.05, 80.42, 79.9, 80.15),
    "better": (82.0, 82.5, 81.7, 82.2),
    "worse": (78.1, 78.3, 77.9, 78.2),
    "unknown": (79.0, 81.0, 80.6, 79.2),
    "same": BASELINE,
}


def study(baseline=BASELINE, margin=0.3, direction="higher"):
    def cell(name, values):
        protocol = {"encoder": {}, "evaluator": {"id": "p"}}
        runs = []
        for seed, value in enumerate(values):
            score = Score("T", "m", value, protocol, "en", "e", direction=direction)
            runs.append(CellRun(name, seed, "finished", scores=(score,)))

        return CellInfo(name, {}, tuple(runs))

    cells = (
        cell("base", baseline),
        *(cell(name, values) for name, values in CELLS.items()),
    )
    return StudyData("toy", (), cells, "base", (0, 1, 2, 3), equivalence=margin)


@pytest.mark.parametrize("name", ["alike", "better", "worse", "unknown"])
@pytest.mark.parametrize("margin", [0.05, 0.3, 2.5])
def test_over_seeds_it_is_the_paired_tost_of_statsmodels(name, margin):
    cell = CELLS[name]
    differences = np.subtract(cell, BASELINE).tolist()
    judged = with_test(Judged(dict(enumerate(differences))))
    test = equivalence_of(judged.estimate, margin)
    p_value, (_, above, _), (_, below, _) = ttost_paired(
        np.array(cell), np.array(BASELINE), -margin, margin
    )
    assert test.equivalent == pytest.approx(p_value, rel=1e-6)
    assert test.no_worse == pytest.approx(above, rel=1e-6)
    assert test.equivalent == pytest.approx(max(above, below), rel=1e-6)


def test_over_items_and_seeds_it_is_that_computed_by_hand():
    # d = 1, 2, 3 with V_seeds / S = 1/3 and V_items = 1: the error is sqrt(4/3).
    test = equivalence_of(
        with_test(Judged({1: 1.0, 2: 2.0, 3: 3.0}, 1.0, 41)).estimate, 4.0
    )
    error = math.sqrt(4 / 3)

    def critical(level):
        of_items = stats.t.isf(level, 41) ** 2
        of_seeds = stats.t.isf(level, 2) ** 2 / 3
        return math.sqrt((of_items + of_seeds) / (4 / 3))

    # From 2 down to -4, and up to 4.
    assert critical(test.no_worse) == pytest.approx(6 / error)
    assert critical(test.equivalent) == pytest.approx(2 / error)
    half = error * critical(0.05)
    assert (test.low, test.high) == pytest.approx((2 - half, 2 + half))


@pytest.mark.parametrize("margin", [0.01, 0.1, 0.3, 1.0, 2.2, 5.0])
def test_it_is_equivalent_at_5_per_cent_if_the_90_per_cent_interval_lies_within_the_margin(
    margin,
):
    estimates = []
    for first, second in ((0.1, 0.2), (1.5, 1.9), (-1, 2)):
        judged = Judged({1: first, 2: second, 3: 0.2}, 0.01, 30)
        estimates.append(with_test(judged).estimate)

    tests = [equivalence_of(test, margin) for test in estimates]
    within = [-margin < test.low and test.high < margin for test in tests]
    assert [test.equivalent < 0.05 for test in tests] == within
    assert [test.no_worse < 0.05 for test in tests] == [
        -margin < test.low for test in tests
    ]


def test_where_lower_is_better_a_lower_score_is_no_worse():
    estimate = with_test(Judged({1: -1.0, 2: -1.2, 3: -0.9})).estimate
    up, down = equivalence_of(estimate, 0.3), equivalence_of(estimate, 0.3, lower=True)
    assert down.no_worse < 0.01 < 0.99 < up.no_worse
    assert up.equivalent == down.equivalent


def equivalences(summary):
    """Return the tests of each cell that has them."""
    tests = {row.cell: row.cells[-1].equivalence for row in summary.rows}
    return {cell: test for cell, test in tests.items() if test is not None}


def test_both_questions_are_corrected_over_the_cells():
    (summary,) = summarise(study())
    tests = equivalences(summary)
    # `same` has neither seeds nor items that vary: no test.
    assert [*tests] == ["alike", "better", "worse", "unknown"]
    for before, after in (
        ("no_worse", "corrected_no_worse"),
        ("equivalent", "corrected_equivalent"),
    ):
        raw = {name: getattr(test, before) for name, test in tests.items()}
        assert {name: getattr(test, after) for name, test in tests.items()} == holm(raw)

    assert tests["alike"].corrected_equivalent == pytest.approx(
        4 * tests["alike"].equivalent
    )
    assert [test.corrected_no_worse < 0.05 for test in tests.values()] == [
        True,
        True,
        False,
        False,
    ]
    assert [test.corrected_equivalent < 0.05 for test in tests.values()] == [
        True,
        False,
        False,
        False,
    ]


def test_without_a_margin_or_a_better_and_a_worse_there_is_no_test():
    (summary,) = summarise(study(margin=None))
    assert equivalences(summary) == {}
    (summary,) = summarise(study(direction="none"))
    assert equivalences(summary) == {}
    assert equivalence_section(study(margin=None), [summary]) is None


def test_a_cell_that_equals_the_baseline_on_every_item_is_equivalent():
    estimate = with_test(Judged({1: 0.0, 2: 0.0}, 0.0, 9)).estimate
    assert equivalence_of(estimate, 0.1).equivalent < 1e-100


def test_the_report_says_both_p_values_of_every_cell():
    data = study()
    summaries = summarise(data)
    section = equivalence_section(data, summaries)
    assert (
        section.summary
        == "2 cells shown to be no worse than base by 0.3 in e, p: T (m)"
    )
    (table,) = section.tables
    assert [column.heading for column in table.columns[1:]] == [
        "no worse by more than 0.3",
        "equivalent within 0.3",
    ]
    rows = {row.cell: row.cells for row in table.rows}
    test = equivalences(summaries[0])["alike"]
    assert rows["alike"][0] == Estimate(
        value=pytest.approx(0.03), interval=(test.low, test.high)
    )
    assert rows["alike"][1:] == ("p < 0.001 ‡", "p < 0.001 ‡")
    unknown = equivalences(summaries[0])["unknown"]
    assert 0.05 < unknown.corrected_no_worse < unknown.corrected_equivalent <= 1
    assert rows["unknown"][1:] == (
        f"p = {unknown.corrected_no_worse:.3f}",
        f"p = {unknown.corrected_equivalent:.3f}",
    )
    assert rows["worse"][1:] == ("p = 1.000", "p = 1.000")


def test_exports_have_the_tests():
    data = study()
    (summary,) = summarise(data)
    tests = equivalences(summary)
    lines = {
        line["cell"]: line
        for line in csv.DictReader(io.StringIO(to_csv(summary.table)))
    }
    assert float(lines["alike"]["T no worse p"]) == tests["alike"].corrected_no_worse
    assert (
        float(lines["alike"]["T equivalent p"]) == tests["alike"].corrected_equivalent
    )
    assert lines["base"]["T equivalent p"] == lines["same"]["T equivalent p"] == ""
    (table,) = json.loads(to_json(data, [summary]))["tables"]
    assert table["equivalence"][0] == {
        "cell": "alike",
        "encoder": "en",
        **attrs.asdict(tests["alike"]),
    }
    (without,) = summarise(study(margin=None))
    assert "equivalent p" not in to_csv(without.table)
    assert (
        json.loads(to_json(study(margin=None), [without]))["tables"][0]["equivalence"]
        == []
    )


def test_the_line_of_the_section_is_about_its_first_table(study_of):
    levels = {"base": (80.0, 80.0), "cell": (70.0, 80.0)}
    numbers = {}
    for name, (first, second) in levels.items():
        scores = {"T/accuracy": first, "T/f1": second}
        numbers[name] = {1: scores, 2: scores}

    data = study_of(numbers, baseline="base", items=True, equivalence=1.0)
    section = equivalence_section(data, summarise(data))
    assert len(section.tables) == 2
    assert section.summary == (
        "0 cells shown to be no worse than base by 1 in transfer, p: T (accuracy)"
    )
