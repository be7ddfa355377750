from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence

import attrs
import numpy as np
import pytest
from scipy import stats
from sentbed.protocols import Direction, Score
from sentbed_report.statistics.equivalence import equivalence_of
from sentbed_report.statistics.significance import holm, judge
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.equivalence import equivalences
from sentbed_report.study.exports import to_csv, to_json
from sentbed_report.study.observed_power import observed_power
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData
from sentbed_report.study_page.study_sections import sections_of
from statsmodels.stats.weightstats import ttost_paired

BASELINE = (80.0, 80.4, 79.9, 80.1)
CELLS = {
    "alike": (80.05, 80.42, 79.9, 80.15),
    "better": (82.0, 82.5, 81.7, 82.2),
    "worse": (78.1, 78.3, 77.9, 78.2),
    "unknown": (79.0, 81.0, 80.6, 79.2),
    "same": BASELINE,
}


def study(
    baseline: Sequence[float] = BASELINE, margin: float | None = 0.3, direction: Direction = "higher"
) -> StudyData:
    protocol = {"encoder": {}, "evaluator": {"id": "p"}}
    cells = []
    for name, values in {"base": baseline, **CELLS}.items():
        runs = []
        for seed, value in enumerate(values):
            score = Score("T", "m", value, protocol, "en", "e", direction=direction)
            runs.append(CellRun(name, seed, "finished", scores=(score,)))
        cells.append(CellInfo(name, {}, tuple(runs)))
    return StudyData("toy", (), tuple(cells), "base", (0, 1, 2, 3), equivalence=margin)


@pytest.mark.parametrize("name", ["alike", "better", "worse", "unknown"])
@pytest.mark.parametrize("margin", [0.05, 0.3, 2.5])
def test_over_seeds_it_is_the_paired_tost_of_statsmodels(name: str, margin: float) -> None:
    cell, base = np.array(CELLS[name]), np.array(BASELINE)
    test = equivalence_of(judge(dict(enumerate(cell - base))).estimate, margin)
    p_value, (_, above, _), _ = ttost_paired(cell, base, -margin, margin)
    assert test.equivalent == pytest.approx(p_value, rel=1e-6)
    assert test.no_worse == pytest.approx(above, rel=1e-6)


def test_over_items_and_seeds_it_is_that_computed_by_hand() -> None:
    # d = 1, 2, 3 with V_seeds / S = 1/3 and V_items = 1: the error is sqrt(4/3).
    test = equivalence_of(judge({1: 1.0, 2: 2.0, 3: 3.0}, 1.0, 41).estimate, 4.0)
    error = math.sqrt(4 / 3)

    def critical(level: float) -> float:
        return math.sqrt((stats.t.isf(level, 41) ** 2 + stats.t.isf(level, 2) ** 2 / 3) / (4 / 3))

    # From 2 down to -4, and up to 4.
    assert critical(test.no_worse) == pytest.approx(6 / error)
    assert critical(test.equivalent) == pytest.approx(2 / error)
    reach = error * critical(0.05)
    assert (test.low, test.high) == pytest.approx((2 - reach, 2 + reach))


@pytest.mark.parametrize("margin", [0.01, 0.1, 0.3, 1.0, 2.2, 5.0])
def test_it_is_equivalent_at_5_per_cent_if_the_90_per_cent_interval_lies_within_the_margin(
    margin: float,
) -> None:
    for first, second in ((0.1, 0.2), (1.5, 1.9), (-1, 2)):
        test = equivalence_of(judge({1: first, 2: second, 3: 0.2}, 0.01, 30).estimate, margin)
        assert (test.equivalent < 0.05) == (-margin < test.low and test.high < margin)
        assert (test.no_worse < 0.05) == (-margin < test.low)


def test_where_lower_is_better_a_lower_score_is_no_worse() -> None:
    estimate = judge({1: -1.0, 2: -1.2, 3: -0.9}).estimate
    up, down = equivalence_of(estimate, 0.3), equivalence_of(estimate, 0.3, lower=True)
    assert down.no_worse < 0.01 < 0.99 < up.no_worse
    assert up.equivalent == down.equivalent


@pytest.mark.parametrize("question", ["no_worse", "equivalent"])
def test_both_questions_are_corrected_over_the_cells_and_the_looks(question: str) -> None:
    (summary,) = summarise(study())
    once, thrice = (equivalences(attrs.evolve(summary, looks=looks)) for looks in (1, 3))
    # `same` has neither seeds nor items that vary: no test.
    assert [cell for cell, _ in once] == ["alike", "better", "worse", "unknown"]
    p_values = {key: getattr(test, question) for key, test in once.items()}
    for looks, tests in ((1, once), (3, thrice)):
        corrected = {key: getattr(test, f"corrected_{question}") for key, test in tests.items()}
        assert corrected == holm(p_values, looks)
    (power,) = observed_power([attrs.evolve(summary, looks=3)])
    assert power.comparisons == 3 * len(once)


@pytest.mark.parametrize("without", [study(margin=None), study(direction="none")])
def test_without_a_margin_or_a_better_and_a_worse_there_is_no_test(without: StudyData) -> None:
    (summary,) = summarise(without)
    assert equivalences(summary) == {}
    assert not any(section.title == "Equivalence" for section in sections_of(without, [summary]))


def test_a_cell_that_equals_the_baseline_on_every_item_is_equivalent() -> None:
    estimate = judge({1: 0.0, 2: 0.0}, 0.0, 9).estimate
    assert equivalence_of(estimate, 0.1).equivalent < 1e-100


def test_the_report_says_both_p_values_of_every_cell() -> None:
    data = study()
    summaries = summarise(data)
    section = next(one for one in sections_of(data, summaries) if one.title == "Equivalence")
    (table,) = section.tables
    assert table.headings[3:] == ("no worse by more than 0.3", "equivalent within 0.3")
    rows = {row.cell: row.entries for row in table.rows}
    test = equivalences(summaries[0])["alike", "en"]
    assert rows["alike"][:2] == ("+0.03", f"{test.low:.2f} to {test.high:.2f}")
    assert rows["alike"][2:] == ("p < 0.001 ‡", "p < 0.001 ‡")
    unknown = equivalences(summaries[0])["unknown", "en"]
    assert 0.05 < unknown.corrected_no_worse < unknown.corrected_equivalent <= 1
    assert rows["unknown"][2:] == (
        f"p = {unknown.corrected_no_worse:.3f}",
        f"p = {unknown.corrected_equivalent:.3f}",
    )
    assert rows["worse"][2:] == ("p = 1.000", "p = 1.000")


def test_exports_have_the_tests() -> None:
    data = study()
    (summary,) = summarise(data)
    tests = equivalences(summary)
    lines = {line["cell"]: line for line in csv.DictReader(io.StringIO(to_csv(summary)))}
    assert float(lines["alike"]["T no worse p"]) == tests["alike", "en"].corrected_no_worse
    assert float(lines["alike"]["T equivalent p"]) == tests["alike", "en"].corrected_equivalent
    assert lines["base"]["T equivalent p"] == lines["same"]["T equivalent p"] == ""
    (table,) = json.loads(to_json(data, [summary]))["tables"]
    assert table["equivalence"][0] == {"cell": "alike", "encoder": "en", **attrs.asdict(tests["alike", "en"])}
    (without,) = summarise(study(margin=None))
    assert "equivalent p" not in to_csv(without)
    assert json.loads(to_json(study(margin=None), [without]))["tables"][0]["equivalence"] == []
