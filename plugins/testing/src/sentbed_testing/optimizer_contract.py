"""The contract of an optimiser: it minimises the sum of squares of a matrix, a vector and a scalar."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import torch
from sentbed.protocols import Optimizer
from torch.testing import assert_close

from sentbed_testing.component_contract import ComponentContract

STEPS = 5

Parameters = dict[str, torch.nn.Parameter]


def random_parameters() -> Parameters:
    """Return new parameters, the same in every call."""
    generator = torch.Generator().manual_seed(0)
    shapes = {"dense.weight": (4, 3), "dense.bias": (4,), "temperature": ()}
    parameters = {}
    for name, shape in shapes.items():
        value = torch.randn(shape, generator=generator)
        parameters[name] = torch.nn.Parameter(value)
    return parameters


def take_step(optimizer: torch.optim.Optimizer, parameters: Parameters) -> float:
    """Take a step that minimises the sum of squares. Return the loss before the step."""
    optimizer.zero_grad()
    squares = [(value**2).sum() for value in parameters.values()]
    loss = torch.stack(squares).sum()
    torch.autograd.backward(loss)
    optimizer.step()
    return float(loss.detach())


class OptimizerContract(ComponentContract):
    """Tests of an optimiser."""

    component: ClassVar[Optimizer]

    def build(
        self,
        component: Optimizer,
        parameters: Parameters,
    ) -> Any:
        """Return the optimiser over some parameters."""
        return component.build(list(parameters.items()))

    def test_descends(self, component: Optimizer) -> None:
        """A few steps lower the loss and change every parameter."""
        parameters = random_parameters()
        optimizer = self.build(component, parameters)

        assert isinstance(optimizer, torch.optim.Optimizer)

        losses = [take_step(optimizer, parameters) for _ in range(STEPS + 1)]

        assert losses[-1] < losses[0]

        for name, value in random_parameters().items():
            assert torch.isfinite(parameters[name]).all(), name
            assert not torch.equal(parameters[name], value), name

    def test_learning_rate(self, component: Optimizer) -> None:
        """All parameter groups have `lr`, which scales the whole step, so that a schedule can change it."""
        parameters = random_parameters()
        optimizer = self.build(component, parameters)

        assert {group["lr"] for group in optimizer.param_groups} == {component.lr}

        for group in optimizer.param_groups:
            group["lr"] = 0.0

        take_step(optimizer, parameters)

        assert_close(parameters, random_parameters(), rtol=0, atol=0)

    def test_resumes(self, component: Optimizer) -> None:
        """An optimiser that loads a saved state takes the same steps as an uninterrupted one."""
        parameters = random_parameters()
        optimizer = self.build(component, parameters)
        for _ in range(STEPS):
            take_step(optimizer, parameters)

        copies = copy.deepcopy(parameters)
        resumed = self.build(component, copies)
        resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        for _ in range(STEPS):
            take_step(optimizer, parameters)
            take_step(resumed, copies)

        assert_close(copies, parameters, rtol=0, atol=0)
