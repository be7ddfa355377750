"""Rules of an optimiser, tested on a matrix, a vector and a scalar."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from sentbed.protocols import Tensor

from sentbed_testing import torch_module_checks
from sentbed_testing.component_under_test import Subject
from sentbed_testing.random_token_states import distance, load_torch

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings

STEPS = 5


def _parameters() -> list[tuple[str, Tensor]]:
    """Return the names and random values of new parameters."""
    torch = load_torch()
    generator = torch.Generator().manual_seed(0)
    shapes = {"dense.weight": (4, 3), "dense.bias": (4,), "temperature": ()}
    parameters = []
    for name, shape in shapes.items():
        value = torch.randn(shape, generator=generator)
        parameters.append((name, torch.nn.Parameter(value)))
    return parameters


def _step(optimizer: Any, parameters: list[tuple[str, Tensor]]) -> float:
    """Take a step that minimises the sum of squares. Return the loss before the step."""
    torch = load_torch()
    optimizer.zero_grad()
    squares = [(value**2).sum() for _, value in parameters]
    loss = torch.stack(squares).sum()
    loss.backward()
    optimizer.step()
    return float(loss.detach())


def _values(parameters: list[tuple[str, Tensor]]) -> list[Tensor]:
    """Return copies of the parameters' values."""
    return [value.detach().clone() for _, value in parameters]


def descends(subject: Subject) -> Findings:
    """A few steps lower a loss and change every parameter. All parameters stay finite."""
    torch = load_torch()
    parameters = _parameters()
    optimizer = subject.ready.build(parameters)
    if not isinstance(optimizer, torch.optim.Optimizer):
        yield (
            f"`build` returns {type(optimizer).__name__}",
            "return a `torch.optim.Optimizer`",
        )
        return

    before = _values(parameters)
    losses = [_step(optimizer, parameters) for _ in range(STEPS + 1)]
    after = _values(parameters)
    if not losses[-1] < losses[0]:
        yield (
            f"after {STEPS} steps the loss is {losses[-1]:.6g}, and it was {losses[0]:.6g}",
            "step against the gradient",
        )

    for (name, _), value_before, value_after in zip(
        parameters, before, after, strict=True
    ):
        is_equal = torch.equal(value_before, value_after)
        if is_equal or not torch.isfinite(value_after).all():
            yield (
                f"the parameter `{name}` does not change, or is not finite",
                "update every parameter that `build` gets",
            )


def rate(subject: Subject) -> Findings:
    """Parameter groups have `lr`, which scales the whole step. So a schedule can change the learning rate."""
    optimizer = subject.ready.build(_parameters())
    rates = {float(group.get("lr", -1)) for group in optimizer.param_groups}
    if rates != {subject.part.lr}:
        yield (
            f"`lr` is {subject.part.lr!r}, but its parameter groups have {sorted(rates)}",
            "pass `lr` on unchanged",
        )

    parameters = _parameters()
    stopped = subject.ready.build(parameters)
    for group in stopped.param_groups:
        group["lr"] = 0.0
    before = _values(parameters)
    _step(stopped, parameters)
    if not torch_module_checks.same(before, _values(parameters)):
        yield (
            "with `lr` 0, a step changes weights",
            "scale the whole step, with the weight decay, by the group's `lr`",
        )


def resume(subject: Subject) -> Findings:
    """An optimiser that loads a saved state takes the same steps as an uninterrupted optimiser."""
    parameters = _parameters()
    optimizer = subject.ready.build(parameters)
    for _ in range(STEPS):
        _step(optimizer, parameters)
    saved = deepcopy(optimizer.state_dict())
    torch = load_torch()
    copies = []
    for name, value in parameters:
        copies.append((name, torch.nn.Parameter(value.detach().clone())))
    resumed = subject.ready.build(copies)
    resumed.load_state_dict(saved)

    for _ in range(STEPS):
        _step(optimizer, parameters)
        _step(resumed, copies)
    difference = 0.0
    for actual, expected in zip(_values(copies), _values(parameters), strict=True):
        difference = max(difference, distance(actual, expected))
    if difference > 0:
        yield (
            f"{STEPS} steps after it was loaded, weights differ by {difference:.2g} of their size (allowed 0)",
            "keep everything that decides a step in `state` and `param_groups`",
        )


RULES = {"descends": descends, "rate": rate, "resume": resume}
