from __future__ import annotations

import statistics

import pytest
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.main_effects import main_effects
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
    """One seed below and one above each value; a cell without a value has failed."""
    numbers = {}
    for name, value in values.items():
        if value is None:
            numbers[name] = {1: {}, 2: {}}
        else:
            numbers[name] = {1: {"MR": value - 1}, 2: {"MR": value + 1}}

    data = study_of(numbers, axes, statuses=dict.fromkeys(numbers, "failed"), **more)
    (summary,) = summarise(data)
    return main_effects(data, summary)


def differences(effect):
    return {label.label: label.difference for label in effect.labels}


def test_the_effect_of_a_label_is_the_mean_of_its_paired_differences(study_of):
    pooler, loss = effects_of(study_of, VALUES, [POOLER, LOSS])
    assert (pooler.axis, pooler.reference, pooler.together) == ("pooler", "first", ())
    (mean,) = pooler.labels
    assert mean.pairs == 3
    assert mean.difference == pytest.approx((5 + 2 + 9) / 3)
    assert mean.std == pytest.approx(statistics.stdev([5, 2, 9]))
    assert differences(loss) == {"cls": -11.5, "nli": -18.0}


def test_the_reference_is_the_baselines_label(study_of):
    pooler, loss = effects_of(study_of, VALUES, [POOLER, LOSS], baseline="mean, cls")
    assert (pooler.reference, loss.reference) == ("mean", "cls")
    assert differences(loss) == {"ctr": 11.5, "nli": -6.5}


def test_a_pair_is_missing_where_a_cell_has_failed(study_of):
    values = {**VALUES, "mean, nli": None}
    pooler, loss = effects_of(study_of, values, [POOLER, LOSS])
    assert differences(pooler) == {"mean": 3.5}
    assert differences(loss) == {"cls": -11.5, "nli": -20.0}
    assert [label.pairs for label in loss.labels] == [2, 1]
    assert loss.labels[1].std is None


def test_axes_that_go_together_are_named_and_do_not_part_the_cells(study_of):
    size = AxisInfo("size", ("small", "large"))
    rate = AxisInfo("rate", ("1e-3", "1e-4"))
    values = {
        "small, 1e-3, first": 50.0,
        "small, 1e-3, mean": 52.0,
        "large, 1e-4, first": 60.0,
        "large, 1e-4, mean": 64.0,
    }
    effects = effects_of(study_of, values, [size, rate, POOLER])
    assert [(effect.axis, effect.together) for effect in effects] == [
        ("size", ("rate",)),
        ("rate", ("size",)),
        ("pooler", ()),
    ]
    assert differences(effects[0]) == {"large": 11.0}
    assert differences(effects[2]) == {"mean": 3.0}


def test_an_axis_of_one_label_has_no_effect(study_of):
    axes = [POOLER, AxisInfo("one", ("x",))]
    (effect,) = effects_of(study_of, {"first, x": 1.0, "mean, x": 2.0}, axes)
    assert effect.axis == "pooler"


def test_a_mean_over_other_cells_never_reverses_what_holds_in_each(study_of):
    """Simpson's reversal: `mean` is better with both models, and was run with the weak one more often."""
    model = AxisInfo("model", ("weak", "strong"))
    corpus = AxisInfo("data", ("a", "b", "c"))
    values = {
        "first, weak, a": 30.0,
        "first, weak, b": None,
        "first, weak, c": None,
        "first, strong, a": 80.0,
        "first, strong, b": 81.0,
        "first, strong, c": 82.0,
        "mean, weak, a": 35.0,
        "mean, weak, b": 36.0,
        "mean, weak, c": 37.0,
        "mean, strong, a": 85.0,
        "mean, strong, b": None,
        "mean, strong, c": None,
    }
    pooler = effects_of(study_of, values, [POOLER, model, corpus])[0]
    assert differences(pooler) == {"mean": 5.0}
    # Over all cells that finished it would be the other way round.
    finished = {"first": [], "mean": []}
    for cell, value in values.items():
        if value is not None:
            label, _, _ = cell.split(", ")
            finished[label].append(value)

    assert statistics.fmean(finished["first"]) > statistics.fmean(finished["mean"])


def test_a_label_that_cannot_run_has_no_difference(study_of):
    pooler = AxisInfo("pooler", ("first", "mean", "decoder"))
    values = {"first, ctr": 60.0, "mean, ctr": 62.0}
    effect = effects_of(study_of, values, [pooler, LOSS])[0]
    assert effect.compared
    assert differences(effect) == {"mean": 2.0, "decoder": None}


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
    first, second = effects_of(
        study_of, values, [knowledge, loss], baseline="none, none"
    )
    assert (first.reference, second.reference) == ("dropout", "ctr")
    assert differences(first) == {"none": None, "nsp": 1.0}
    assert differences(second) == {"none": None, "cls": -7.0}


def test_effects_are_those_of_the_average(study_of):
    numbers = {name: {1: {"MR": 1.0, "CR": value}} for name, value in VALUES.items()}
    data = study_of(numbers, [POOLER, LOSS])
    (summary,) = summarise(data)
    assert differences(main_effects(data, summary)[0])["mean"] == pytest.approx(8 / 3)
