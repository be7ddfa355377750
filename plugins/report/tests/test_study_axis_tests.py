"""Tests of effects of axes, against tests of two cells and sums by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from scipy import stats
from sentbed_report.statistics.item_components import ComponentStore
from sentbed_report.statistics.significance import Judged, holm, judge_cell
from sentbed_report.study.axis_tests import axis_findings
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.study_data import AxisInfo

POOLER = AxisInfo("pooler", ("first", "mean"))
LOSS = AxisInfo("loss", ("ctr", "cls"))
FOUR: Mapping[str, tuple[float, float, float]] = {
    "first, ctr": (60.0, 61.0, 60.5),
    "first, cls": (63.0, 63.5, 64.5),
    "mean, ctr": (66.0, 68.0, 66.5),
    "mean, cls": (75.0, 74.0, 77.0),
}


def numbers(values):
    scores = {}
    for cell, of_seeds in values.items():
        scores[cell] = {seed: {"MR": score} for seed, score in enumerate(of_seeds)}

    return scores


def summary_of(data):
    (summary,) = summarise(data)
    return summary


def findings_of(data):
    (findings,) = axis_findings(data, [summary_of(data)])
    return findings.tests


@pytest.mark.parametrize("items", [False, True])
def test_an_effect_in_one_context_is_the_comparison_of_two_cells(study_of, items):
    values = {"first": FOUR["first, ctr"], "mean": FOUR["mean, ctr"]}
    data = study_of(numbers(values), [POOLER], items=items)
    test = findings_of(data)["pooler", "mean"]
    first, mean = data.cells
    before = {run.seed: run.scores[0] for run in first.runs}
    after = {run.seed: run.scores[0] for run in mean.runs}
    pair = judge_cell(before, after, ComponentStore())
    assert pair.basis == ("items and seeds" if items else "seeds")
    for field in ("difference", "interval", "p_value", "item_variance", "basis"):
        assert getattr(test, field) == pytest.approx(getattr(pair, field)), field


def test_an_effect_over_contexts_is_a_t_test_of_its_mean_under_each_seed(study_of):
    data = study_of(numbers(FOUR), [POOLER, LOSS])
    tests = findings_of(data)
    means = []
    for pooler in POOLER.labels:
        of_losses = [FOUR[f"{pooler}, ctr"], FOUR[f"{pooler}, cls"]]
        means.append(np.mean(of_losses, axis=0))

    first, mean = means
    expected = stats.ttest_rel(mean, first)
    test = tests["pooler", "mean"]
    assert [*test.differences.values()] == pytest.approx(mean - first)
    assert test.p_value == pytest.approx(expected.pvalue)
    assert test.interval == pytest.approx(tuple(expected.confidence_interval()))
    p_values = {}
    corrected = {}
    for key, effect in tests.items():
        p_values[key] = effect.p_value
        corrected[key] = effect.corrected
    assert corrected == pytest.approx(holm(p_values))


def test_over_items_a_contrast_is_a_t_test_of_the_items_weighted_sums(study_of):
    one_seed = {}
    for cell, scores in FOUR.items():
        one_seed[cell] = scores[:1]
    data = study_of(numbers(one_seed), [POOLER, LOSS], items=True)

    weights = {}
    sums = np.zeros(300)
    for cell, weight in zip(data.cells, (1.0, -1.0, -1.0, 1.0), strict=True):
        weights[cell.name, "en"] = weight
        items = cell.runs[0].scores[0].items
        sums += weight * 100 * items.x
    test = summary_of(data).scores.contrast(weights)

    variance = sums.var(ddof=1) / 300
    assert test.item_variance == pytest.approx(variance)
    # The scores of the study are not exactly those of its items.
    statistic = test.difference / math.sqrt(variance)
    assert test.p_value == pytest.approx(2 * stats.t.sf(abs(statistic), 299))


def test_what_cannot_be_compared_says_why(study_of):
    data = study_of({"first": {1: {"MR": 60.0}}, "mean": {2: {"MR": 61.0}}}, [POOLER])
    tests = findings_of(data)
    assert tests["pooler", "mean"] == Judged(reason="no seed has a score of all cells")
    # A label without a cell has no effect.
    alone = study_of(numbers({"first": FOUR["first, ctr"]}), [POOLER])
    assert findings_of(alone) == {}


def test_the_line_on_an_effect_has_the_difference_of_its_interval(study_of):
    scores = numbers(FOUR)
    # Without this seed, the other pair of cells is tested without it, too.
    del scores["mean, cls"][2]
    data = study_of(scores, [POOLER, LOSS])
    (findings,) = axis_findings(data, [summary_of(data)])
    test = findings.tests["pooler", "mean"]
    assert test.difference == pytest.approx((6 + 7 + 12 + 10.5) / 4)
