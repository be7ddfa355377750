"""Rules of an optimiser, tested on a matrix, a vector and a scalar."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from sentbed.protocols import Tensor

from sentbed_testing import random_token_states, torch_module_checks
from sentbed_testing.component_under_test import Subject

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings

STEPS = 5


def _parameters(seed: int = 0) -> list[tuple[str, Tensor]]:
    torch = random_token_states.load_torch()
    generator = torch.Generator().manual_seed(seed)
    shapes = {"dense.weight": (4, 3), "dense.bias": (4,), "temperature": ()}
    parameters = []
    for name, shape in shapes.items():
        drawn = torch.randn(shape, generator=generator)
        parameters.append((name, torch.nn.Parameter(drawn)))
    return parameters


def _step(optimizer: Any, parameters: list[tuple[str, Tensor]]) -> float:
    """Take a step towards 0 and return the loss before it."""
    torch = random_token_states.load_torch()
    optimizer.zero_grad()
    squares = [(value**2).sum() for _, value in parameters]
    loss = torch.stack(squares).sum()
    loss.backward()
    optimizer.step()
    return float(loss.detach())


def _copies(parameters: list[tuple[str, Tensor]]) -> list[Tensor]:
    return [value.detach().clone() for _, value in parameters]


def descends(subject: Subject) -> Findings:
    """A few steps reduce a loss and move every parameter, and all parameters stay finite."""
    torch = random_token_states.load_torch()
    parameters = _parameters()
    optimizer = subject.ready.build(parameters)
    if not isinstance(optimizer, torch.optim.Optimizer):
        yield (
            f"`build` returns {type(optimizer).__name__}",
            "return a `torch.optim.Optimizer`",
        )
        return

    before = _copies(parameters)
    losses = [_step(optimizer, parameters) for _ in range(STEPS + 1)]
    after = _copies(parameters)
    if not losses[-1] < losses[0]:
        yield (
            f"after {STEPS} steps the loss is {losses[-1]:.6g}, it was {losses[0]:.6g}",
            "step against the gradient",
        )

    for (name, _), value_before, value_after in zip(
        parameters, before, after, strict=True
    ):
        if (
            torch.equal(value_before, value_after)
            or not torch.isfinite(value_after).all()
        ):
            yield (
                f"the parameter `{name}` does not move, or is not finite",
                "update every parameter that it is given",
            )


def rate(subject: Subject) -> Findings:
    """The parameter groups have `lr`, and it scales the whole step, so that a schedule can change it."""
    optimizer = subject.ready.build(_parameters())
    rates = {float(group.get("lr", -1)) for group in optimizer.param_groups}
    if rates != {subject.part.lr}:
        yield (
            f"`lr` is {subject.part.lr!r}, and its groups have {sorted(rates)}",
            "pass `lr` on as it is",
        )

    parameters = _parameters()
    stopped = subject.ready.build(parameters)
    for group in stopped.param_groups:
        group["lr"] = 0.0
    before = _copies(parameters)
    _step(stopped, parameters)
    if not torch_module_checks.same(before, _copies(parameters)):
        yield (
            "with the rate 0 a step moves weights",
            "scale the whole step, decay included, by the group's `lr`",
        )


def resume(subject: Subject) -> Findings:
    """An optimiser that is saved and loaded takes the same steps as an uninterrupted one."""
    parameters = _parameters()
    optimizer = subject.ready.build(parameters)
    for _ in range(STEPS):
        _step(optimizer, parameters)
    saved = deepcopy(optimizer.state_dict())
    torch = random_token_states.load_torch()
    others = []
    for name, value in parameters:
        others.append((name, torch.nn.Parameter(value.detach().clone())))
    again = subject.ready.build(others)
    again.load_state_dict(saved)
    for _ in range(STEPS):
        _step(optimizer, parameters)
        _step(again, others)
    off = 0.0
    for resumed, expected in zip(_copies(others), _copies(parameters), strict=True):
        off = max(off, random_token_states.distance(resumed, expected))
    if off > 0:
        yield (
            f"after it was loaded, {STEPS} steps lead to weights that differ by {off:.2g} of their size "
            "(allowed 0)",
            "keep all that decides a step in `state` and `param_groups`",
        )


RULES = {"descends": descends, "rate": rate, "resume": resume}
