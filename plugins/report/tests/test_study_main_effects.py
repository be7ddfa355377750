from __future__ import annotations

import statistics
from collections.abc import Callable

import pytest
from sentbed_report.study.main_effects import interaction, main_effects
from sentbed_report.study.study_data import AxisInfo, StudyData
from sentbed_report.study.summarize import summarise
from sentbed_report.study.summary import Summary

Make = Callable[..., StudyData]

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


def with_summary(
    study_of: Make, values: dict[str, float | None], axes: list[AxisInfo], **more: object
) -> tuple[StudyData, Summary]:
    """One seed below and one above each value; a cell without a value has failed."""
    numbers = {
        name: {1: {}, 2: {}} if value is None else {1: {"MR": value - 1}, 2: {"MR": value + 1}}
        for name, value in values.items()
    }
    data = study_of(numbers, axes, statuses=dict.fromkeys(numbers, "failed"), **more)
    (found,) = summarise(data)
    return data, found


def test_the_effect_of_a_label_is_its_mean_and_its_paired_differences(study_of: Make) -> None:
    pooler, loss = main_effects(*with_summary(study_of, VALUES, [POOLER, LOSS]))
    assert (pooler.axis, pooler.reference, pooler.together) == ("pooler", "first", ())
    first, mean = pooler.labels
    assert (first.mean, first.contexts, first.difference) == (60.0, 3, 0.0)
    assert (mean.mean, mean.pairs) == (pytest.approx((75 + 62 + 59) / 3), 3)
    assert mean.difference == pytest.approx((5 + 2 + 9) / 3)
    assert mean.std == pytest.approx(statistics.stdev([5, 2, 9]))
    assert [one.mean for one in loss.labels] == [72.5, 61.0, 54.5]
    assert [one.difference for one in loss.labels] == [0.0, -11.5, -18.0]


def test_the_reference_is_the_baselines_label(study_of: Make) -> None:
    pooler, loss = main_effects(*with_summary(study_of, VALUES, [POOLER, LOSS], baseline="mean, cls"))
    assert (pooler.reference, loss.reference) == ("mean", "cls")
    assert [one.difference for one in loss.labels] == [11.5, 0.0, -6.5]


def test_means_are_over_contexts_that_all_labels_have(study_of: Make) -> None:
    values = {**VALUES, "mean, nli": None}
    pooler, loss = main_effects(*with_summary(study_of, values, [POOLER, LOSS]))
    assert [(one.mean, one.contexts) for one in pooler.labels] == [(65.0, 2), (68.5, 2)]
    # Only `first` has all three losses; each pair of losses takes the contexts that the two have.
    assert [(one.mean, one.contexts, one.pairs) for one in loss.labels] == [
        (70.0, 1, 2),
        (60.0, 1, 2),
        (50.0, 1, 1),
    ]
    assert [one.difference for one in loss.labels] == [0.0, -11.5, -20.0]
    assert loss.labels[2].std is None


def test_axes_that_go_together_are_named_and_do_not_part_the_cells(study_of: Make) -> None:
    size = AxisInfo("size", ("small", "large"))
    rate = AxisInfo("rate", ("1e-3", "1e-4"))
    values = {"small, 1e-3, first": 50.0, "small, 1e-3, mean": 52.0, "large, 1e-4, first": 60.0}
    effects = main_effects(
        *with_summary(study_of, {**values, "large, 1e-4, mean": 64.0}, [size, rate, POOLER])
    )
    assert [(one.axis, one.together) for one in effects] == [
        ("size", ("rate",)),
        ("rate", ("size",)),
        ("pooler", ()),
    ]
    assert [one.mean for one in effects[0].labels] == [51.0, 62.0]
    assert [one.mean for one in effects[2].labels] == [55.0, 58.0]


def test_an_axis_of_numbers_gives_points_in_their_order(study_of: Make) -> None:
    rate = AxisInfo("rate", ("0.05", "0.01", "1"), (0.05, 0.01, 1.0))
    effect, other = main_effects(
        *with_summary(
            study_of,
            {
                f"{label}, {pooler}": 10.0 * n
                for n, label in enumerate(rate.labels)
                for pooler in POOLER.labels
            },
            [rate, POOLER],
        )
    )
    assert effect.points == ((0.01, 10.0), (0.05, 0.0), (1.0, 20.0))
    assert other.points == ()


def test_an_axis_of_one_label_has_no_effect(study_of: Make) -> None:
    (found,) = main_effects(
        *with_summary(study_of, {"first, x": 1.0, "mean, x": 2.0}, [POOLER, AxisInfo("one", ("x",))])
    )
    assert found.axis == "pooler"


def test_two_axes_are_a_matrix_of_means_over_the_rest(study_of: Make) -> None:
    norm = AxisInfo("norm", ("raw", "unit"))
    values: dict[str, float | None] = {
        f"{name}, {label}": value + shift
        for name, value in VALUES.items()
        for label, shift in (("raw", 0.0), ("unit", 2.0))
    }
    grid = interaction(*with_summary(study_of, values, [POOLER, LOSS, norm]), "loss", "pooler")
    assert grid.means == ((71.0, 76.0), (61.0, 63.0), (51.0, 60.0))
    assert grid.counts == ((2, 2),) * 3
    assert grid.balanced
    values |= {"mean, nli, raw": None, "mean, nli, unit": None, "first, ctr, unit": None}
    grid = interaction(*with_summary(study_of, values, [POOLER, LOSS, norm]), "loss", "pooler")
    assert grid.means == ((70.0, 76.0), (61.0, 63.0), (51.0, None))
    assert grid.counts == ((1, 2), (2, 2), (2, 0))
    assert not grid.balanced


def test_a_task_is_asked_for_by_its_column(study_of: Make) -> None:
    numbers = {name: {1: {"MR": 1.0, "CR": value}} for name, value in VALUES.items()}
    data = study_of(numbers, [POOLER, LOSS])
    (summary,) = summarise(data)
    assert main_effects(data, summary, 0)[0].labels[1].difference == 0.0
    assert main_effects(data, summary, 1)[0].labels[0].mean == 60.0
    assert main_effects(data, summary)[0].labels[0].mean == 30.5
