"""Effects of axes, against sums by hand and t-tests of scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sentbed_report.statistics.difference import holm
from sentbed_report.study.axis_effects import axis_effects
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.study_data import AxisInfo

POOLER = AxisInfo("pooler", ("first", "mean"))
LOSS = AxisInfo("loss", ("ctr", "cls", "nli"))
VALUES = {
    "first, ctr": 70.0,
    "first, cls": 60.0,
    "first, nli": 50.0,
    "mean, ctr": 75.0,
    "mean, cls": 62.0,
    "mean, nli": 59.0,
}


def effects_of(study_of, values, axes, **more):
    """Effects of one seed below and one above each value; a cell without a value has failed."""
    numbers = {}
    for name, value in values.items():
        numbers[name] = {1: {}, 2: {}}
        if value is not None:
            numbers[name] = {1: {"MR": value - 1}, 2: {"MR": value + 1}}
    statuses = dict.fromkeys(numbers, "failed")
    data = study_of(numbers, axes, statuses=statuses, **more)
    (summary,) = summarise(data)
    return axis_effects(data, summary)


def differences(effect):
    differences_of_labels = {}
    for label in effect.labels:
        differences_of_labels[label.label] = label.judged.difference
    return differences_of_labels


def test_the_effect_of_a_label_is_the_mean_of_its_paired_differences(study_of):
    pooler, loss = effects_of(study_of, VALUES, [POOLER, LOSS])
    assert (pooler.axis, pooler.reference) == ("pooler", "first")
    assert differences(pooler) == {"mean": pytest.approx((5 + 2 + 9) / 3)}
    assert differences(loss) == {"cls": -11.5, "nli": -18.0}


def test_the_reference_is_the_baselines_label(study_of):
    pooler, loss = effects_of(study_of, VALUES, [POOLER, LOSS], baseline="mean, cls")
    assert (pooler.reference, loss.reference) == ("mean", "cls")
    assert differences(loss) == {"ctr": 11.5, "nli": -6.5}


def test_a_pair_is_missing_where_a_cell_has_failed(study_of):
    """Simpson's reversal: over all cells that finished, `first` would be better."""
    values = {**VALUES, "mean, ctr": None, "first, nli": None}
    pooler, loss = effects_of(study_of, values, [POOLER, LOSS])
    assert differences(pooler) == {"mean": 2.0}
    assert differences(loss) == {"cls": -10.0}


def test_axes_that_go_together_do_not_part_the_cells(study_of):
    size = AxisInfo("size", ("small", "large"))
    rate = AxisInfo("rate", ("1e-3", "1e-4"))
    values = {
        "small, 1e-3, first": 50.0,
        "small, 1e-3, mean": 52.0,
        "large, 1e-4, first": 60.0,
        "large, 1e-4, mean": 64.0,
    }
    of_size, _, pooler = effects_of(study_of, values, [size, rate, POOLER])
    assert differences(of_size) == {"large": 11.0}
    assert differences(pooler) == {"mean": 3.0}


def test_labels_are_compared_without_a_baseline_that_shares_nothing_with_them(study_of):
    knowledge = AxisInfo("knowledge", ("none", "dropout", "nsp"))
    loss = AxisInfo("loss", ("none", "ctr", "cls"))
    values = {
        "none, none": 60.0,
        "dropout, ctr": 70.0,
        "dropout, cls": 66.0,
        "nsp, ctr": 74.0,
        "nsp, cls": 64.0,
    }
    axes = [knowledge, loss, AxisInfo("one", ("x",))]
    values = {f"{name}, x": value for name, value in values.items()}
    effects = effects_of(study_of, values, axes, baseline="none, none, x")
    assert [effect.reference for effect in effects] == ["dropout", "ctr"]
    assert list(map(differences, effects)) == [{"nsp": 1.0}, {"cls": -7.0}]


FOUR = {
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


def test_an_effect_over_pairs_is_a_t_test_of_its_mean_under_each_seed(study_of):
    data = study_of(numbers(FOUR), [POOLER, AxisInfo("loss", ("ctr", "cls"))])
    (summary,) = summarise(data)
    tests = []
    for effect in axis_effects(data, summary):
        tests.append(effect.labels[0].judged)
    first = np.mean([FOUR["first, ctr"], FOUR["first, cls"]], axis=0)
    mean = np.mean([FOUR["mean, ctr"], FOUR["mean, cls"]], axis=0)
    expected = stats.ttest_rel(mean, first)
    assert tests[0].p_value == pytest.approx(expected.pvalue)
    assert tests[0].interval == pytest.approx(tuple(expected.confidence_interval()))
    corrected = holm({"pooler": tests[0].p_value, "loss": tests[1].p_value})
    assert tests[0].corrected == pytest.approx(corrected["pooler"])
    assert tests[1].corrected == pytest.approx(corrected["loss"])


@pytest.mark.parametrize("baseline", ["first", None])
def test_a_single_pair_has_the_test_of_the_table(study_of, baseline):
    pooler = AxisInfo("pooler", ("first", "mean", "last"))
    values = {**FOUR, "last": (60.5, 60.0, 61.5)}
    values["first"] = values.pop("first, ctr")
    values["mean"] = values.pop("mean, ctr")
    values = {label: values[label] for label in pooler.labels}
    data = study_of(numbers(values), [pooler], baseline)
    (summary,) = summarise(data)
    (effect,) = axis_effects(data, summary)
    of_table = summary.tests
    for label in effect.labels:
        pair = (("first", "en"), (label.label, "en"))
        assert label.judged == of_table[pair]
