from __future__ import annotations

import pytest
import torch
from sentbed_hardware.adafactor import Adafactor
from sentbed_hardware.adamw import AdamW


def parameters_with_gradient():
    generator = torch.Generator().manual_seed(0)
    shapes = {"dense.weight": (3, 4), "dense.bias": (4,), "temperature": ()}
    parameters = []
    for name, shape in shapes.items():
        parameter = torch.nn.Parameter(torch.randn(shape, generator=generator))
        parameter.grad = torch.randn(shape, generator=generator)
        parameters.append((name, parameter))

    return parameters


def test_adamw_takes_the_step_of_its_equations():
    optimizer = AdamW(lr=0.01, beta1=0.8, beta2=0.95, eps=1e-6, weight_decay=0.1)
    parameters = parameters_with_gradient()
    expected = {}
    for name, parameter in parameters:
        theta, gradient = parameter.detach().double(), parameter.grad.double()
        first, second = torch.zeros_like(theta), torch.zeros_like(theta)
        for step in (1, 2, 3):
            first = 0.8 * first + 0.2 * gradient
            second = 0.95 * second + 0.05 * gradient**2
            if theta.ndim >= 2:
                theta = theta - 0.01 * 0.1 * theta
            update = (first / (1 - 0.8**step)) / (
                (second / (1 - 0.95**step)).sqrt() + 1e-6
            )
            theta = theta - 0.01 * update
        expected[name] = theta.float()
    torch_optimizer = optimizer.build(parameters)
    for _ in range(3):
        torch_optimizer.step()
    for name, parameter in parameters:
        torch.testing.assert_close(parameter.data, expected[name], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kept", [[0], [1, 2]])
def test_adamw_takes_parameters_of_one_kind(kept):
    parameters = [parameters_with_gradient()[index] for index in kept]
    before = [parameter.detach().clone() for _, parameter in parameters]
    AdamW(lr=0.1).build(parameters).step()
    for (_, parameter), value in zip(parameters, before, strict=True):
        torch.testing.assert_close(
            parameter.data, value - 0.1 * parameter.grad.sign(), rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("scaled", [False, True])
def test_adafactor_takes_the_step_of_its_equations(scaled):
    """Shazeer and Stern, 2018, algorithm 4: rows and columns of the squared gradient, clipped update."""
    parameters = parameters_with_gradient()[:2]
    expected = {}
    for name, parameter in parameters:
        theta, square = (
            parameter.detach().double(),
            parameter.grad.double() ** 2 + 1e-30,
        )
        if theta.ndim == 2:
            square = (
                square.mean(1, keepdim=True)
                * square.mean(0, keepdim=True)
                / square.mean()
            )
        # The gradient repeats, so the decayed means of its squares stay as they are.
        update = parameter.grad.double() / square.sqrt()
        update = update / max(1.0, update.pow(2).mean().sqrt().item() / 0.5)
        for _ in range(2):
            rate = 0.01 * (
                max(1e-3, theta.pow(2).mean().sqrt().item()) if scaled else 1.0
            )
            theta = theta - rate * (0.1 * theta + update)
        expected[name] = theta.float()
    optimizer = Adafactor(
        lr=0.01, clip_threshold=0.5, weight_decay=0.1, scale_parameter=scaled
    ).build(parameters)
    for _ in range(2):
        optimizer.step()
    for name, parameter in parameters:
        torch.testing.assert_close(parameter.data, expected[name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("optimizer", "field", "value"),
    [
        (AdamW, "lr", 0.0),
        (AdamW, "beta1", 1.0),
        (AdamW, "beta2", -0.1),
        (AdamW, "eps", 0.0),
        (AdamW, "weight_decay", -0.1),
        (Adafactor, "lr", -1e-3),
        (Adafactor, "decay_rate", 0.0),
        (Adafactor, "clip_threshold", 0.0),
        (Adafactor, "weight_decay", -0.1),
    ],
)
def test_values_out_of_range_are_refused(optimizer, field, value):
    parameters = {"lr": 1e-3, field: value}
    with pytest.raises(ValueError, match=field):
        optimizer(**parameters)


@pytest.mark.parametrize(
    ("rate", "is_usual"), [(1e-8, False), (1e-7, True), (2e-2, True), (3.0, False)]
)
def test_a_rate_far_outside_what_encoders_are_trained_with_is_remarked(rate, is_usual):
    remarks = list(AdamW(lr=rate).remarks())
    if is_usual:
        assert remarks == []
    else:
        (remark,) = remarks
        assert remark.startswith(
            f"`lr = {rate:g}` of the optimiser `adamw` is outside 1e-07 to 0.02: "
        )


@pytest.mark.parametrize(
    "optimizer",
    [AdamW(lr=0.1), Adafactor(), Adafactor(scale_parameter=False)],
    ids=lambda optimizer: optimizer.name,
)
def test_the_state_has_as_many_bytes_as_the_optimizer_says(optimizer):
    shapes = {"embeddings": (50, 6), "bias": (9,), "kernel": (3, 4, 5), "scale": ()}
    parameters = []
    for name, shape in shapes.items():
        parameter = torch.nn.Parameter(torch.ones(shape))
        parameter.grad = torch.ones(shape)
        parameters.append((name, parameter))
    real = optimizer.build(parameters)
    real.step()
    byte_count = 0
    for state in real.state.values():
        for value in state.values():
            if torch.is_tensor(value):
                byte_count += value.nbytes
    assert optimizer.state_bytes(shapes) == byte_count
