from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from sentbed.errors import RecipeError
from sentbed.tools import Document, structure
from sentbed_losses._torch.temperature import LearnedTemperature, temperature_module
from sentbed_losses.info_nce import InfoNCE
from sentbed_losses.matryoshka import Matryoshka
from sentbed_losses.temperature import LearnableTemperature

SIMILARITIES = [[0.8, 0.1], [0.3, 0.5]]
TEMPERATURE = 0.4


def slope_by_hand():
    """The derivative of the mean loss by the temperature: of row i, (s_ii - sum_j p_ij s_ij) / t^2."""
    slopes = []
    for row, similarities in enumerate(SIMILARITIES):
        terms = [math.exp(similarity / TEMPERATURE) for similarity in similarities]
        expected = sum(
            s * term for s, term in zip(similarities, terms, strict=True)
        ) / sum(terms)
        slopes.append((similarities[row] - expected) / TEMPERATURE**2)
    return sum(slopes) / len(slopes)


@pytest.mark.parametrize(
    ("parameter", "value", "factor"),
    [
        ("log", math.log(TEMPERATURE), TEMPERATURE),
        ("value", TEMPERATURE, 1.0),
        ("inverse", 1 / TEMPERATURE, -(TEMPERATURE**2)),
    ],
)
def test_the_gradient_of_what_is_learned_is_that_of_the_formula(
    parameter, value, factor
):
    learnable = LearnableTemperature(initial=TEMPERATURE, parameter=parameter)
    module = InfoNCE(temperature=learnable, similarity="dot").build(2)
    ((name, learned),) = module.named_parameters()
    assert name == f"temperature.{parameter}"
    assert learned.item() == pytest.approx(value)
    vectors = {"anchor": torch.eye(2), "positive": torch.tensor(SIMILARITIES).T}
    output = module(vectors)
    output.loss.backward()
    assert output.metrics["temperature"].item() == pytest.approx(TEMPERATURE)
    # dL/dp = dL/dt dt/dp, and dt/dp is t, 1 and -t^2.
    assert learned.grad.item() == pytest.approx(slope_by_hand() * factor, rel=1e-5)


@pytest.mark.parametrize(
    ("parameter", "low", "high", "derivative"),
    [
        ("log", -9, 9, lambda temperature: temperature),
        ("value", -1, 200, lambda temperature: 1),
        ("inverse", 900, 1e-4, lambda temperature: -(temperature**2)),
    ],
)
def test_out_of_bounds_temperature_and_gradient_are_those_at_the_bound(
    parameter, low, high, derivative
):
    module = temperature_module(LearnableTemperature(parameter=parameter))
    learned = module.get_parameter(parameter)
    for value, bound in ((low, 0.01), (high, 100.0)):
        with torch.no_grad():
            learned.fill_(value)
        temperature = module()
        assert isinstance(temperature, torch.Tensor)
        assert temperature.item() == pytest.approx(bound, rel=1e-5)
        (slope,) = torch.autograd.grad(temperature, learned)
        assert slope.item() == pytest.approx(derivative(bound), rel=1e-4)


def test_a_rate_of_its_own_is_that_of_the_parameter_wherever_the_loss_stands():
    learnable = LearnableTemperature(parameter="value", lr=1e-3)
    expected = {"value": 1e-3}
    assert temperature_module(learnable).learning_rates == expected
    assert temperature_module(LearnableTemperature()).learning_rates == {}
    nested = Matryoshka(loss=InfoNCE(temperature=learnable), dimensions=(4, 2)).build(4)
    rates = [
        part.learning_rates
        for part in nested.modules()
        if isinstance(part, LearnedTemperature)
    ]
    assert rates == [expected, expected]


@pytest.mark.parametrize(
    ("written", "temperature"),
    [
        (0.05, 0.05),
        (1, 1.0),
        ({"initial": 1.0, "min": 0.01, "max": 100.0}, LearnableTemperature()),
        ({"initial": 2, "max": 4}, LearnableTemperature(2.0, max=4.0)),
        ({}, LearnableTemperature()),
    ],
)
def test_a_recipe_gives_the_temperature_as_a_number_or_a_table(written, temperature):
    document = Document.of({"temperature": written})
    assert structure(document, InfoNCE, None, Path()).temperature == temperature


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (0, "`temperature` divides the similarities and must be a number > 0"),
        (-0.05, "must be a number > 0"),
        ({"initial": 0}, "must be > 0: 0.0"),
        (
            {"initial": 0.001},
            "starts at 0.001, which is not between its bounds 0.01 and 100.0",
        ),
        ({"initial": 1.0, "minimum": 0.1}, "unknown key `minimum`"),
    ],
)
def test_a_recipe_with_an_impossible_temperature_is_told_why(written, message):
    document = Document.of({"temperature": written})
    with pytest.raises(RecipeError, match=message):
        structure(document, InfoNCE, None, Path())


@pytest.mark.parametrize(
    ("parameter", "reached"),
    [("log", math.exp(-0.5)), ("value", 0.5), ("inverse", 1 / 1.5)],
)
def test_a_hundred_steps_get_as_far_as_the_docstring_says(parameter, reached):
    module = temperature_module(LearnableTemperature(parameter=parameter))
    learned = module.get_parameter(parameter)
    for _ in range(100):
        temperature = module()
        assert isinstance(temperature, torch.Tensor)
        (slope,) = torch.autograd.grad(temperature, learned)
        with torch.no_grad():
            # The largest update of Adam under gradients of one sign.
            learned.sub_(0.005 * slope.sign())
    temperature = module()
    assert isinstance(temperature, torch.Tensor)
    assert temperature.item() == pytest.approx(reached, rel=1e-4)
