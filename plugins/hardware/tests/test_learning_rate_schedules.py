from __future__ import annotations

import math

import pytest
import torch
from sentbed_hardware.learning_rate_schedules import (
    Constant,
    Cosine,
    Linear,
    LinearAfterHold,
    RelativeStep,
)
from transformers import (
    get_constant_schedule_with_warmup,
    get_cosine_schedule_with_warmup,
    get_linear_schedule_with_warmup,
)
from transformers.optimization import Adafactor


def multipliers_of(make, steps, *lengths):
    """Return the multipliers of a schedule of transformers."""
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    multiplier = make(optimizer, *lengths).lr_lambdas[0]
    return [multiplier(step) for step in range(steps)]


@pytest.mark.parametrize(
    ("warmup", "total"), [(0, 50), (1, 50), (10, 50), (49, 50), (0, 1)]
)
def test_multipliers_are_those_of_transformers(warmup, total):
    steps = total + 1
    references = [
        (
            Constant(warmup),
            multipliers_of(get_constant_schedule_with_warmup, steps, warmup),
        ),
        (
            Linear(warmup),
            multipliers_of(get_linear_schedule_with_warmup, steps, warmup, total),
        ),
        (
            Cosine(warmup),
            multipliers_of(get_cosine_schedule_with_warmup, steps, warmup, total),
        ),
    ]
    for schedule, expected in references:
        factors = [schedule.factor(step, total) for step in range(steps)]
        assert factors == pytest.approx(expected, abs=1e-12), schedule


@pytest.mark.parametrize("warmup_init", [False, True])
def test_the_relative_step_is_that_of_transformers_adafactor(warmup_init):
    optimizer = Adafactor(
        [torch.zeros(1)], scale_parameter=False, warmup_init=warmup_init
    )
    schedule = RelativeStep(warmup_init)
    for step in (0, 1, 9, 100, 9_998, 9_999, 10_000, 10_001, 250_000):
        expected = optimizer._get_lr(optimizer.param_groups[0], {"step": step + 1})
        assert schedule.factor(step, 10) == pytest.approx(expected, rel=1e-12)
    first = 1e-6 if warmup_init else 0.01
    rates = [schedule.factor(step, 10) for step in (0, 9_999, 39_999)]
    assert rates == pytest.approx([first, 0.01, 0.005])


def test_linear_after_hold_holds_a_tenth_and_falls_to_zero_as_sentence_t5_does():
    factors = [LinearAfterHold().factor(step, 100) for step in range(101)]
    assert factors[:11] == [1.0] * 11
    assert factors[11] == pytest.approx(89 / 90)
    assert factors[55] == pytest.approx(0.5)
    assert factors[99] == pytest.approx(1 / 90)
    assert factors[100] == 0.0


@pytest.mark.parametrize(
    ("hold", "step", "total", "expected"),
    [
        # A quarter of 16 steps is 4, and step 10 is halfway from there to the end.
        (0.25, 4, 16, 1.0),
        (0.25, 10, 16, 0.5),
        (5, 5, 15, 1.0),
        (5, 11, 15, 0.4),
        (0, 4, 16, 0.75),
    ],
)
def test_a_hold_below_one_is_a_share_of_the_steps_and_else_a_number(
    hold, step, total, expected
):
    assert LinearAfterHold(hold).factor(step, total) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("schedule", "step", "expected"),
    [
        (Constant(0.2), 1, 0.5),
        (Linear(0.2), 6, 0.5),
        (Linear(0.25), 1, 0.4),
        (Cosine(floor=0.2), 5, 0.6),
        (Cosine(floor=0.2), 10, 0.2),
        (Cosine(warmup=0.2), 4, (1 + math.cos(math.pi / 4)) / 2),
    ],
)
def test_shares_of_ten_steps_and_a_floor_are_those_computed_by_hand(
    schedule, step, expected
):
    assert schedule.factor(step, 10) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("schedule", "field", "value"),
    [
        (Constant, "warmup", -0.1),
        (Linear, "warmup", -1),
        (Cosine, "warmup", -1),
        (LinearAfterHold, "hold", -0.1),
        (Cosine, "floor", 1.5),
        (Cosine, "floor", -0.1),
    ],
)
def test_values_out_of_range_are_refused(schedule, field, value):
    with pytest.raises(ValueError, match=field):
        schedule(**{field: value})
