from __future__ import annotations

import statistics

import pytest
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.main_effects import interaction, main_effects
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


def with_summary(study_of, values, axes, **more):
    """One seed below and one above each value; a cell without a value has failed."""
    numbers = {}
    for name, value in values.items():
        if value is None:
            numbers[name] = {1: {}, 2: {}}
        else:
            numbers[name] = {1: {"MR": value - 1}, 2: {"MR": value + 1}}

    data = study_of(numbers, axes, statuses=dict.fromkeys(numbers, "failed"), **more)
    (summary,) = summarise(data)
    return data, summary


def test_the_effect_of_a_label_is_its_mean_and_its_paired_differences(study_of):
    pooler, loss = main_effects(*with_summary(study_of, VALUES, [POOLER, LOSS]))
    assert (pooler.axis, pooler.reference, pooler.together) == ("pooler", "first", ())
    first, mean = pooler.labels
    assert (first.mean, first.contexts, first.difference) == (60.0, 3, 0.0)
    assert (mean.mean, mean.pairs) == (pytest.approx((75 + 62 + 59) / 3), 3)
    assert mean.difference == pytest.approx((5 + 2 + 9) / 3)
    assert mean.std == pytest.approx(statistics.stdev([5, 2, 9]))
    assert [label.mean for label in loss.labels] == [72.5, 61.0, 54.5]
    assert [label.difference for label in loss.labels] == [0.0, -11.5, -18.0]


def test_the_reference_is_the_baselines_label(study_of):
    pooler, loss = main_effects(
        *with_summary(study_of, VALUES, [POOLER, LOSS], baseline="mean, cls")
    )
    assert (pooler.reference, loss.reference) == ("mean", "cls")
    assert [label.difference for label in loss.labels] == [11.5, 0.0, -6.5]


def test_means_are_over_contexts_that_all_labels_have(study_of):
    values = {**VALUES, "mean, nli": None}
    pooler, loss = main_effects(*with_summary(study_of, values, [POOLER, LOSS]))
    assert [(label.mean, label.contexts) for label in pooler.labels] == [
        (65.0, 2),
        (68.5, 2),
    ]
    # Only `first` has all three losses; each pair of losses takes the contexts that the two have.
    assert [(label.mean, label.contexts, label.pairs) for label in loss.labels] == [
        (70.0, 1, 2),
        (60.0, 1, 2),
        (50.0, 1, 1),
    ]
    assert [label.difference for label in loss.labels] == [0.0, -11.5, -20.0]
    assert loss.labels[2].std is None


def test_axes_that_go_together_are_named_and_do_not_part_the_cells(study_of):
    size = AxisInfo("size", ("small", "large"))
    rate = AxisInfo("rate", ("1e-3", "1e-4"))
    values = {
        "small, 1e-3, first": 50.0,
        "small, 1e-3, mean": 52.0,
        "large, 1e-4, first": 60.0,
    }
    effects = main_effects(
        *with_summary(
            study_of, {**values, "large, 1e-4, mean": 64.0}, [size, rate, POOLER]
        )
    )
    assert [(label.axis, label.together) for label in effects] == [
        ("size", ("rate",)),
        ("rate", ("size",)),
        ("pooler", ()),
    ]
    assert [label.mean for label in effects[0].labels] == [51.0, 62.0]
    assert [label.mean for label in effects[2].labels] == [55.0, 58.0]


def test_an_axis_of_numbers_gives_points_in_their_order(study_of):
    rate = AxisInfo("rate", ("0.05", "0.01", "1"), (0.05, 0.01, 1.0))
    values = {}
    for n, label in enumerate(rate.labels):
        for pooler in POOLER.labels:
            values[f"{label}, {pooler}"] = 10.0 * n

    data, summary = with_summary(study_of, values, [rate, POOLER])
    effect, other = main_effects(data, summary)
    assert effect.points == ((0.01, 10.0), (0.05, 0.0), (1.0, 20.0))
    assert other.points == ()


def test_an_axis_of_one_label_has_no_effect(study_of):
    (effect,) = main_effects(
        *with_summary(
            study_of,
            {"first, x": 1.0, "mean, x": 2.0},
            [POOLER, AxisInfo("one", ("x",))],
        )
    )
    assert effect.axis == "pooler"


def test_two_axes_are_a_matrix_of_means_over_the_rest(study_of):
    norm = AxisInfo("norm", ("raw", "unit"))
    values = {}
    for name, value in VALUES.items():
        values[f"{name}, raw"] = value
        values[f"{name}, unit"] = value + 2.0

    grid = interaction(
        *with_summary(study_of, values, [POOLER, LOSS, norm]), "loss", "pooler"
    )
    assert grid.means == ((71.0, 76.0), (61.0, 63.0), (51.0, 60.0))
    assert (grid.contexts, grid.left) == (2, {})
    values |= {
        "mean, nli, raw": None,
        "mean, nli, unit": None,
        "first, ctr, unit": None,
    }
    grid = interaction(
        *with_summary(study_of, values, [POOLER, LOSS, norm]), "loss", "pooler"
    )
    # `first, ctr` has finished with `raw` only, and so all means are of `raw`.
    assert grid.means == ((70.0, 75.0), (60.0, 62.0), (50.0, None))
    assert grid.contexts == 1
    assert grid.left == {
        ("nli", "mean"): "none of its cells has finished with this score"
    }


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
    data, summary = with_summary(study_of, values, [POOLER, model, corpus])
    grid = interaction(data, summary, "model", "pooler")
    assert grid.means == ((30.0, 35.0), (80.0, 85.0))
    assert grid.contexts == 1
    pooler = main_effects(data, summary)[0]
    assert [(label.mean, label.contexts) for label in pooler.labels] == [
        (55.0, 2),
        (60.0, 2),
    ]
    # Over all cells that finished it would be the other way round.
    finished = {"first": [], "mean": []}
    for cell, value in values.items():
        if value is not None:
            label, _, _ = cell.split(", ")
            finished[label].append(value)

    assert statistics.fmean(finished["first"]) > statistics.fmean(finished["mean"])


def test_an_axis_with_a_label_that_cannot_run_keeps_the_others(study_of):
    """A decoder needs one, which BERT has not: that cell is left out of the study."""
    pooler = AxisInfo("pooler", ("first", "mean", "decoder"))
    model = AxisInfo("model", ("bert", "roberta"))
    numbers = {
        "first, bert": 60.0,
        "mean, bert": 62.0,
        "first, roberta": 70.0,
        "mean, roberta": 73.0,
    }
    reasons = ("`decoder` needs a decoder.",)
    excluded = (("decoder, bert", reasons), ("decoder, roberta", reasons))
    data, summary = with_summary(study_of, numbers, [pooler, model], excluded=excluded)
    effect, other = main_effects(data, summary)
    assert effect.compared
    assert [(label.label, label.mean, label.contexts) for label in effect.labels] == [
        ("first", 65.0, 2),
        ("mean", 67.5, 2),
        ("decoder", None, 0),
    ]
    assert effect.left == {
        "decoder": "left out of the study: `decoder` needs a decoder."
    }
    assert (other.compared, other.left) == (True, {})
    grid = interaction(data, summary, "pooler", "model")
    assert grid.means == ((60.0, 70.0), (62.0, 73.0), (None, None))
    assert set(grid.left) == {("decoder", "bert"), ("decoder", "roberta")}


def test_labels_that_share_no_combination_are_compared_where_most_of_them_do(study_of):
    """BERT has no last token to pool, and OPT no first one: only `mean` goes with every model."""
    pooler = AxisInfo("pooler", ("first", "mean", "last"))
    model = AxisInfo("model", ("bert", "roberta", "opt"))
    values = {
        "first, bert": 60.0,
        "mean, bert": 62.0,
        "first, roberta": 70.0,
        "mean, roberta": 73.0,
        "mean, opt": 50.0,
        "last, opt": 55.0,
    }
    effect = main_effects(
        *with_summary(study_of, values, [pooler, model], baseline="mean, bert")
    )[0]
    assert (effect.reference, [label.mean for label in effect.labels]) == (
        "mean",
        [65.0, 67.5, None],
    )
    assert effect.labels[2].difference == 5.0
    assert effect.left == {
        "last": "no combination of everything else in common with what is compared"
    }
    # With the baseline's label among them, even where others have more.
    effect = main_effects(
        *with_summary(study_of, values, [pooler, model], baseline="last, opt")
    )[0]
    assert (effect.reference, [label.mean for label in effect.labels]) == (
        "last",
        [None, 50.0, 55.0],
    )


def test_a_label_alone_is_no_comparison_and_says_so(study_of):
    values = {
        "first, ctr": 70.0,
        "mean, ctr": None,
        "first, cls": 60.0,
        "mean, cls": None,
    }
    loss = AxisInfo("loss", ("ctr", "cls"))
    pooler, other = main_effects(
        *with_summary(study_of, values, [POOLER, loss], baseline="mean, ctr")
    )
    assert (pooler.compared, set(pooler.left)) == (False, {"first", "mean"})
    assert (other.compared, other.left) == (True, {})


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
    first, second = main_effects(
        *with_summary(study_of, values, [knowledge, loss], baseline="none, none")
    )
    assert [(label.label, label.mean, label.contexts) for label in first.labels] == [
        ("none", None, 0),
        ("dropout", 68.0, 2),
        ("nsp", 69.0, 2),
    ]
    assert (first.reference, second.reference) == ("dropout", "ctr")
    assert [label.difference for label in second.labels] == [None, 0.0, -7.0]
    assert list(first.left) == list(second.left) == ["none"]


def test_effects_are_those_of_the_average(study_of):
    numbers = {name: {1: {"MR": 1.0, "CR": value}} for name, value in VALUES.items()}
    data = study_of(numbers, [POOLER, LOSS])
    (summary,) = summarise(data)
    assert main_effects(data, summary)[0].labels[0].mean == 30.5
