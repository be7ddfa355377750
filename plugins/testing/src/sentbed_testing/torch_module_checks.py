"""Checks of a torch module: attributes, gradients, non-finite numbers, data dependence."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any

import attrs
from sentbed.protocols import Module, Tensor

from sentbed_testing.component_under_test import NotRunError
from sentbed_testing.random_token_states import load_torch, own_memory

_NO_EQUALITY: Any = object.__eq__
FINITE = (
    "take `logsumexp` or `log_softmax` where `exp` overflows, and divide by nothing that may be 0, such as "
    "`length - 1` for a text of one token; `sqrt`, `norm` and `log` have no finite gradient at 0: add a "
    "small number first"
)
"""Remedy for NaN and infinite values."""
GRADIENT = 1e-2
"""Tolerance of gradients relative to their norm, for finite differences in fp32."""
STEPS = (1e-2, 3e-3, 1e-3, 3e-4)
"""Step sizes of finite differences in fp32: curvature spoils the large ones, rounding the small ones."""


def module_state(module: Module) -> dict[str, Any]:
    """Return a copy of all attributes of a module and its submodules, by name."""
    of_torch = vars(load_torch().nn.Module())
    attributes: dict[str, Any] = {}
    for name, part in module.named_modules():
        for kind in ("_parameters", "_buffers"):
            for key, value in getattr(part, kind).items():
                attributes[f"{name}.{key}".strip(".")] = (
                    None if value is None else value.detach().clone()
                )
        for key, value in vars(part).items():
            if key not in of_torch:
                attributes[f"{name}.{key}".strip(".")] = _copy(value)

    return attributes


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the names of attributes that differ between two results of `module_state`."""
    names = before.keys() ^ after.keys()
    for name in before.keys() & after.keys():
        if not same(before[name], after[name]):
            names.add(name)
    return sorted(names)


def same(value: Any, other: Any) -> bool:
    """Whether two values are equal; tensors, also nested ones, are compared element by element."""
    torch = load_torch()
    if isinstance(value, torch.Tensor) and isinstance(other, torch.Tensor):
        return value.dtype == other.dtype and bool(torch.equal(value, other))
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        if value.keys() != other.keys():
            return False
        return all(same(value[key], other[key]) for key in value)
    if isinstance(value, list | tuple) and isinstance(other, list | tuple):
        return len(value) == len(other) and all(map(same, value, other))
    try:
        if bool(value == other):
            return True
    except Exception:  # noqa: BLE001 - what cannot be compared says nothing
        return True

    # A value without `__eq__` never equals its copy.
    return (
        type(value) is type(other)
        and getattr(type(value), "__eq__", None) is _NO_EQUALITY
    )


def _copy(value: Any) -> Any:
    if inspect.ismethod(value):  # a copy would be bound to a copy of its object
        return value
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001 - what cannot be copied cannot be compared either
        return value


def loose_tensors(module: Module) -> list[str]:
    """Return the names of tensors that a module has not registered and thus does not save."""
    torch = load_torch()
    of_torch = vars(torch.nn.Module())

    def has_tensor(value: Any) -> bool:
        if isinstance(value, Mapping):
            return any(map(has_tensor, value.values()))
        if isinstance(value, list | tuple):
            return any(map(has_tensor, value))
        return isinstance(value, torch.Tensor)

    names = []
    for name, part in module.named_modules():
        for key, value in vars(part).items():
            if key not in of_torch and has_tensor(value):
                names.append(f"{name}.{key}".strip("."))
    return names


def disagreement(function: Callable[[Tensor], Tensor], at: Tensor) -> float:
    """Return the difference between the gradient of a scalar and finite differences, relative to its norm.

    The gradient is projected on three random directions; along each, the central difference that is nearest
    counts, among those with the step sizes `STEPS`. `torch.autograd.gradcheck` needs fp64, but modules of
    losses and poolers compute in fp32 whatever their input is.
    """
    torch = load_torch()
    point = at.detach().clone().requires_grad_()
    value = function(point)
    gradient = None
    if value.requires_grad:
        (gradient,) = torch.autograd.grad(value, point, allow_unused=True)
    size = abs(float(value.detach()))
    gradient = torch.zeros_like(point) if gradient is None else gradient.detach()
    worst = 0.0
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        direction = torch.randn(at.shape, generator=generator)
        expected = float((gradient.double() * direction.double()).sum())
        least = float("inf")
        for step in STEPS:
            with torch.no_grad():
                above = function(at + step * direction)
                below = function(at - step * direction)
            slope = float(above.double() - below.double()) / (2 * step)
            scale = max(float(gradient.norm()), abs(slope), 1e-3 * (1 + size))
            least = min(least, abs(slope - expected) / scale)
        worst = max(worst, least)

    return worst


def not_finite(
    call: Callable[[], Tensor], leaves: Mapping[str, Tensor]
) -> Iterator[tuple[str, Tensor]]:
    """Yield each tensor with NaN or infinite values among a result and its gradients.

    A tensor is given as its name (that of the leaf for a gradient, empty for the result) and a mask of these
    values. Raises `NotRunError` if `call` fails: other rules report that.
    """
    torch = load_torch()
    try:
        result = call()
        tried = {"": result}
        if bool(torch.isfinite(result).all()) and result.requires_grad:
            read = {name: leaf for name, leaf in leaves.items() if leaf.requires_grad}
            gradients = torch.autograd.grad(
                result.sum(), list(read.values()), allow_unused=True
            )
            for name, gradient in zip(read, gradients, strict=True):
                if gradient is not None:
                    tried[name] = gradient
    except Exception as error:
        raise NotRunError("a call of it fails; see the other rules") from error

    for name, value in tried.items():
        wrong = ~torch.isfinite(value.detach())
        if wrong.any():
            yield name, wrong


def worst_first(figures: Iterable[tuple[float, str]], bound: float) -> Iterator[str]:
    """Yield the messages of the figures above a bound, the largest figure first; NaN counts as infinite."""
    ranked: list[tuple[float, str]] = []
    for figure, message in figures:
        size = math.inf if math.isnan(figure) else figure
        ranked.append((size, message))
    ranked.sort(key=lambda pair: -pair[0])
    for figure, message in ranked:
        if figure > bound:
            yield message


def wrong_gradients(
    functions: Iterable[tuple[str, Callable[[Tensor], Tensor], Tensor]],
) -> Iterator[str]:
    """Yield a message for each gradient that differs from finite differences, the worst first.

    `functions` are triples: a description of the gradient, the function, and the point of differentiation.
    """
    figures: list[tuple[float, str]] = []
    for what, function, point in functions:
        difference = disagreement(function, point)
        message = (
            f"{what} is off by {difference:.2g} of its norm (allowed {GRADIENT:g})"
        )
        figures.append((difference, message))

    yield from worst_first(figures, GRADIENT)


@attrs.frozen
class CallEffects:
    """Side effects of a call."""

    changed: str | None
    """Name of an attribute of the module that the call changed."""
    writes: bool
    """Whether the call changed an argument."""
    varies: bool
    """Whether a second call with equal arguments returned another result."""


def effects_of(
    module: Module, call: Callable[[Any], object], arguments: Any
) -> CallEffects:
    """Call a module twice with equal arguments, and return the side effects."""
    arguments, copies = own_memory(arguments), own_memory(arguments)
    before = module_state(module)
    result = call(arguments)
    first_change = next(iter(changed(before, module_state(module))), None)
    writes = not same(arguments, copies)
    varies = not same(result, call(copies))
    return CallEffects(first_change, writes, varies)


def loose_tensor_findings(module: Module, remedy: str) -> Iterator[tuple[str, str]]:
    """Yield a finding for each tensor that a module has not registered."""
    for name in loose_tensors(module):
        yield (
            f"`{name}` is a tensor that is not registered: it is neither saved nor moved to a device",
            remedy,
        )


def load_copy(module: Module, fresh: Module) -> None:
    """Load the weights of a module into another, as they are saved."""
    weights = {name: value.clone() for name, value in module.state_dict().items()}
    fresh.load_state_dict(weights)


def data_dependence(
    call: Callable[[Callable[[Tensor], Tensor]], object],
) -> BaseException | None:
    """Return the exception that `call` raises on fake tensors, which have no values; None if it raises none.

    `call` is given the function that turns a real tensor into a fake one.
    """
    mode = import_module("torch._subclasses.fake_tensor").FakeTensorMode(
        allow_non_fake_inputs=True
    )
    try:
        with mode:
            call(mode.from_tensor)
    except Exception as error:  # noqa: BLE001 - torch has an exception for each operation that needs values
        return error

    return None
