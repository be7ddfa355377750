"""Checks of a torch module: changed attributes, gradients, non-finite numbers, shapes that depend on values."""

from __future__ import annotations

import copy
import inspect
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import attrs
from sentbed.protocols import Module, Tensor
from sentbed_common import host_generator_states

from sentbed_testing.component_under_test import NotRunError
from sentbed_testing.random_token_states import load_torch, own_memory

_DEFAULT_EQUALITY: Any = object.__eq__
FINITE_REMEDY = (
    "use `logsumexp` or `log_softmax` if `exp` overflows, and do not divide by what may be 0, such as "
    "`length - 1` for a text of one token; `sqrt`, `norm` and `log` have no finite gradient at 0: add a "
    "small number first"
)
"""Remedy for NaN and infinite values."""
GRADIENT_TOLERANCE = 1e-2
"""Tolerance between a gradient and finite differences in fp32, relative to the gradient's norm."""
STEP_SIZES = (1e-2, 3e-3, 1e-3, 3e-4)
"""Step sizes of finite differences in fp32. Curvature spoils large steps, and rounding small steps."""
WATCHED_SEED = 8_191
"""Seed of torch's generator in a call that is watched: one that nobody writes."""


def module_state(module: Module) -> dict[str, Any]:
    """Return copies of all attributes, parameters and buffers of a module and its submodules, by name."""
    names_of_torch = vars(load_torch().nn.Module())
    attributes: dict[str, Any] = {}
    for module_name, submodule in module.named_modules():
        values: dict[str, Any] = {**submodule._parameters, **submodule._buffers}
        for name, value in vars(submodule).items():
            if name not in names_of_torch:
                values[name] = value
        for name, value in values.items():
            attributes[f"{module_name}.{name}".strip(".")] = _copy(value)

    return attributes


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the names of the attributes that differ between two results of `module_state`."""
    names = before.keys() ^ after.keys()
    for name in before.keys() & after.keys():
        if not same(before[name], after[name]):
            names.add(name)
    return sorted(names)


def same(value: Any, other: Any) -> bool:
    """Whether two values are equal. Tensors, also within lists, mappings and attrs, must have equal elements.

    Values that cannot be compared count as equal.
    """
    torch = load_torch()
    if isinstance(value, torch.Tensor) and isinstance(other, torch.Tensor):
        return value.dtype == other.dtype and bool(torch.equal(value, other))
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        if value.keys() != other.keys():
            return False
        return all(same(value[key], other[key]) for key in value)
    if isinstance(value, list | tuple) and isinstance(other, list | tuple):
        return len(value) == len(other) and all(map(same, value, other))
    if attrs.has(type(value)) and type(value) is type(other):
        for field in attrs.fields(type(value)):
            left = getattr(value, field.name, None)
            right = getattr(other, field.name, None)
            # A field that the class itself does not compare is no part of the value.
            if field.eq and not same(left, right):
                return False
        return True
    try:
        if bool(value == other):
            return True
    except Exception:  # noqa: BLE001 - what cannot be compared says nothing
        return True

    # If a class has no `__eq__` of its own, an instance never equals its copy.
    if type(value) is not type(other):
        return False
    return getattr(type(value), "__eq__", None) is _DEFAULT_EQUALITY


def _copy(value: Any) -> Any:
    """Return a deep copy of a value, or the value if it cannot be copied."""
    if isinstance(value, load_torch().Tensor):
        return value.detach().clone()
    if inspect.ismethod(value):
        # The copy of a method would belong to a copy of its object.
        return value
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001 - what cannot be copied cannot be compared either
        return value


def loose_tensors(module: Module) -> list[str]:
    """Return the names of attributes with tensors that a module has not registered. They are not saved."""
    torch = load_torch()
    names_of_torch = vars(torch.nn.Module())

    def has_tensor(value: Any) -> bool:
        if isinstance(value, Mapping):
            return any(map(has_tensor, value.values()))
        if isinstance(value, list | tuple):
            return any(map(has_tensor, value))
        return isinstance(value, torch.Tensor)

    names = []
    for name, part in module.named_modules():
        for key, value in vars(part).items():
            if key not in names_of_torch and has_tensor(value):
                names.append(f"{name}.{key}".strip("."))
    return names


def gradient_error(function: Callable[[Tensor], Tensor], point: Tensor) -> float:
    """Return the difference between the gradient of a scalar function and finite differences.

    The difference is relative to the gradient's norm, or to the finite difference if that is larger. It is the
    largest along three random directions. In each direction, the central difference with the step size (one of
    `STEP_SIZES`) that agrees best is taken.

    `torch.autograd.gradcheck` needs fp64, but modules of losses and poolers compute in fp32.
    """
    torch = load_torch()
    leaf = point.detach().clone().requires_grad_()
    value = function(leaf)
    gradient = None
    if value.requires_grad:
        (gradient,) = torch.autograd.grad(value, leaf, allow_unused=True)
    if gradient is None:
        gradient = torch.zeros_like(leaf)
    gradient = gradient.detach()
    # Least divisor: a gradient that is only rounding error has no meaningful relative difference.
    least_scale = 1e-3 * (1 + abs(float(value.detach())))

    generator = torch.Generator().manual_seed(1)
    largest = 0.0
    for _ in range(3):
        direction = torch.randn(point.shape, generator=generator)
        expected = float((gradient.double() * direction.double()).sum())
        smallest = float("inf")
        for step in STEP_SIZES:
            with torch.no_grad():
                above = function(point + step * direction)
                below = function(point - step * direction)
            slope = float(above.double() - below.double()) / (2 * step)
            scale = max(float(gradient.norm()), abs(slope), least_scale)
            smallest = min(smallest, abs(slope - expected) / scale)

        largest = max(largest, smallest)

    return largest


def not_finite(
    call: Callable[[], Tensor], leaves: Mapping[str, Tensor]
) -> Iterator[tuple[str, Tensor]]:
    """Yield name and mask of each tensor with NaN or infinite values: a result, or a gradient of its sum.

    The name of a gradient is the name of its leaf; the name of the result is empty. The mask is true for the NaN
    and infinite values. Gradients are computed only if the result is finite. Raises `NotRunError` if `call`
    raises an exception, since other rules report it.
    """
    torch = load_torch()
    try:
        result = call()
        tensors = {"": result}
        if bool(torch.isfinite(result).all()) and result.requires_grad:
            trained = {
                name: leaf for name, leaf in leaves.items() if leaf.requires_grad
            }
            gradients = torch.autograd.grad(
                result.sum(), list(trained.values()), allow_unused=True
            )
            for name, gradient in zip(trained, gradients, strict=True):
                if gradient is not None:
                    tensors[name] = gradient
    except Exception as error:
        raise NotRunError("a call of it fails; see the other rules") from error

    for name, value in tensors.items():
        mask = ~torch.isfinite(value.detach())
        if mask.any():
            yield name, mask


def worst_first(figures: Iterable[tuple[float, str]], bound: float) -> Iterator[str]:
    """Yield the messages whose figure is above a bound, the largest figure first. No figure is NaN."""
    for figure, message in sorted(figures, key=lambda pair: -pair[0]):
        if figure > bound:
            yield message


def wrong_gradients(
    functions: Iterable[tuple[str, Callable[[Tensor], Tensor], Tensor]],
) -> Iterator[str]:
    """Yield a message for each gradient that differs from finite differences, the largest difference first.

    `functions` are triples of a description of the gradient, the function, and the point of differentiation.
    """
    figures: list[tuple[float, str]] = []
    for what, function, point in functions:
        difference = gradient_error(function, point)
        message = f"{what} is off by {difference:.2g} of its norm (allowed {GRADIENT_TOLERANCE:g})"
        figures.append((difference, message))

    yield from worst_first(figures, GRADIENT_TOLERANCE)


@attrs.frozen
class CallEffects:
    """Side effects of a call."""

    changed: str | None
    """Name of an attribute of the module that the call changed; None if it changed none."""
    writes: bool
    """Whether the call changed an argument."""
    varies: bool
    """Whether a second call with equal arguments returned another result."""
    seeds: bool
    """Whether the call seeded torch's generator."""
    uses_globals: bool
    """Whether the call seeded Python's or NumPy's generator, or drew from it."""


def effects_of(
    module: Module,
    call: Callable[[Any], object],
    arguments: Any,
) -> CallEffects:
    """Call a module twice with equal arguments, and return the side effects.

    `call` calls `module` with the arguments.
    """
    arguments, copies = own_memory(arguments), own_memory(arguments)
    generators = _advance_generators()
    before = module_state(module)
    with _seeds_after_calls(module) as seeds:
        result = call(arguments)
        first_change = next(iter(changed(before, module_state(module))), None)
        writes = not same(arguments, copies)
        varies = not same(result, call(copies))

    seeded_torch = any(seed != WATCHED_SEED for seed in seeds)
    uses_globals = host_generator_states() != generators
    return CallEffects(first_change, writes, varies, seeded_torch, uses_globals)


def _advance_generators() -> dict[str, Any]:
    """Draw from Python's and NumPy's global generators, and return their states.

    Without the draw, a module that seeds them would find them as its earlier calls left them.
    """
    import numpy as np

    random.random()
    np.random.random()
    return host_generator_states()


@contextmanager
def _seeds_after_calls(module: Module) -> Iterator[list[int]]:
    """Seed torch's generator before each call of a module, and list its seeds after the calls."""
    generator = load_torch().default_generator
    seeds: list[int] = []

    def before(*_: object) -> None:
        generator.manual_seed(WATCHED_SEED)

    def after(*_: object) -> None:
        seeds.append(generator.initial_seed())

    hooks = (
        module.register_forward_pre_hook(before),
        module.register_forward_hook(after),
    )
    try:
        yield seeds
    finally:
        for hook in hooks:
            hook.remove()


def effect_findings(
    effects: CallEffects,
    prefix: str,
    result: str,
    remedy: str,
) -> Iterator[tuple[str, str]]:
    """Yield a finding for each side effect of a call.

    Messages begin with `prefix`. `result` names what the call returns. `remedy` is the remedy if the call
    changes an attribute of the module.
    """
    if effects.changed:
        yield f"{prefix}a call changes `{effects.changed}`", remedy
    if effects.writes:
        yield (
            f"{prefix}a call writes into its arguments",
            "change copies: use no operation that ends in `_`",
        )

    if effects.seeds:
        yield (
            f"{prefix}a call seeds torch's generator",
            "draw from it as it is: what others draw next, such as a dropout mask, would repeat",
        )

    if effects.uses_globals:
        yield (
            f"{prefix}a call uses the global generator of Python or NumPy",
            "draw from torch's default generator, which is seeded for each step",
        )
    elif effects.varies:
        yield (
            f"{prefix}a second call with the same seed gives another {result}",
            "keep nothing between calls, and draw from torch's default generator",
        )


def loose_tensor_findings(module: Module, remedy: str) -> Iterator[tuple[str, str]]:
    """Yield a finding for each tensor that a module has not registered."""
    for name in loose_tensors(module):
        yield (
            f"`{name}` is a tensor that is not registered: it is neither saved nor moved to a device",
            remedy,
        )


def data_dependence(
    call: Callable[[Callable[[Tensor], Tensor]], object],
) -> BaseException | None:
    """Return the exception that `call` raises for fake tensors, which have no values.

    None means that `call` needs no values. The argument of `call` is a function that turns a real tensor into a
    fake one.
    """
    fake_tensor = import_module("torch._subclasses.fake_tensor")
    mode = fake_tensor.FakeTensorMode(allow_non_fake_inputs=True)
    try:
        with mode:
            call(mode.from_tensor)
    except Exception as error:  # noqa: BLE001 - torch has an exception for each operation that needs values
        return error
    return None
