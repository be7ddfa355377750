"""A trainer's saved state: the optimiser's state as JSON and tensors.

The state is not a pickle, because loading a pickle can run code. A tensor in the optimiser's state is saved under
its place: the dotted path to it, such as `optimizer.PARAMETER.exp_avg`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias, TypeVar

import torch
from sentbed import RunError
from torch import Tensor
from torch.distributed.tensor import DTensor

from sentbed_hardware._common.tensor_files import Tensors
from sentbed_hardware._torch.sharding import replicated, share_of
from sentbed_hardware.engine_parts.process_group import Processes

T = TypeVar("T", bound=Tensor)

Read: TypeAlias = Callable[[str, bool], Any]
"""A function that returns a tensor of the saved state. Its arguments are the tensor's place, and whether the
tensor was on the host when it was saved, although its parameter was on another device."""

Keep: TypeAlias = Callable[[str, Tensor], bool]
"""A function that adds a tensor to those to be saved. Its arguments are the tensor's place and the tensor. It
returns the second argument of `Read`."""

OF_OPTIMIZER = ("optimizer.", "group.")
"""Prefixes of the names under which tensors of the optimiser are saved."""
RANDOM = "random"
"""Prefix of the names under which the states of random generators are saved."""


def prefixed(prefix: str, tensors: Iterable[tuple[object, T]]) -> dict[str, T]:
    """Return tensors, each under the name `PREFIX.NAME`."""
    return {f"{prefix}.{name}": value for name, value in tensors}


def numbered(tensors: Mapping[str, T], start: str) -> list[T]:
    """Return the tensors with the names `START.0`, `START.1` and so on, up to the first that is missing."""
    values: list[T] = []
    while (name := f"{start}.{len(values)}") in tensors:
        values.append(tensors[name])

    return values


def read_by_all(
    processes: Processes,
    tensors: Tensors,
    name: str,
) -> Tensor:
    """Return the tensor `name` of a saved state. All processes call this together.

    Only the first process has the values of `tensors`. In the others, they are on the device `meta`.
    """
    value = tensors[name]
    if processes.world == 1:
        return value

    if value.is_meta:
        value = torch.empty_like(value, device=processes.device)
    value = value.to(processes.device)
    if value.numel():
        processes.same([value])

    return value


def optimizer_values(
    optimizer: torch.optim.Optimizer,
    parameters: Tensors,
    tensors: dict[str, Tensor],
) -> dict[str, Any]:
    """Return an optimiser's state and settings as values for JSON, and add their tensors to `tensors`.

    `parameters` are those of the optimiser, by name.

    Raises:
        RunError: if the state has values other than tensors, numbers and texts.
    """
    states = {}
    for name, parameter in parameters.items():
        if parameter in optimizer.state:
            state = optimizer.state[parameter]
            keep = partial(_keep, tensors, parameter)
            states[name] = split_value(state, f"optimizer.{name}", keep)

    settings = []
    for number, group in enumerate(optimizer.param_groups):
        kept = {key: value for key, value in group.items() if key != "params"}
        keep = partial(_keep, tensors, group["params"][0])
        settings.append(split_value(kept, f"group.{number}", keep))

    return {
        "settings": settings,
        "states": states,
    }


def restore_optimizer(
    optimizer: torch.optim.Optimizer,
    parameters: Tensors,
    values: Mapping[str, Any],
    read: Callable[[str], Tensor],
) -> None:
    """Restore the state and settings that `optimizer_values` returned; `read` returns a tensor by its place."""
    optimizer.state.clear()

    for name, state in values["states"].items():
        parameter = parameters[name]
        placed = partial(_placed, read, parameter)
        optimizer.state[parameter] = joined_value(state, f"optimizer.{name}", placed)

    for number, group in enumerate(optimizer.param_groups):
        placed = partial(_placed, read, group["params"][0])
        saved = values["settings"][number]
        settings = joined_value(saved, f"group.{number}", placed)
        for key, value in settings.items():
            # The recipe sets the values of `defaults`, and it may have been changed before training is resumed.
            if key not in optimizer.defaults:
                group[key] = value


def split_value(
    value: Any,
    place: str,
    keep: Keep,
) -> Any:
    """Return a value for JSON; `keep` takes the tensors in it.

    `place` is the place of the value itself. Raises `RunError` if it cannot be saved.
    """
    match value:
        case Tensor():
            return {"on_host": keep(place, value)}
        case list():
            parts = []
            for number, child in enumerate(value):
                parts.append(split_value(child, f"{place}.{number}", keep))
            return parts
        case tuple():
            return {"tuple": split_value(list(value), place, keep)}
        case dict() if all(isinstance(key, str) for key in value):
            children = {}
            for key, child in value.items():
                children[key] = split_value(child, f"{place}.{key}", keep)
            return {"dict": children}
        case None | str() | int() | float():
            return value

    raise RunError(
        f"`{place}` of the optimiser is a {type(value).__name__}, which cannot be saved; "
        "choose an optimiser whose state is tensors and numbers"
    )


def _keep(
    tensors: dict[str, Tensor],
    parameter: Tensor,
    place: str,
    value: Tensor,
) -> bool:
    """Add a tensor of a parameter's state to `tensors`; return whether only this tensor is on the host.

    If the parameter is there too, the tensor may go with it to another device, on which the run is resumed.
    """
    tensors[place] = value
    return value.is_cpu and not parameter.is_cpu


def joined_value(
    value: Any,
    place: str,
    read: Read,
) -> Any:
    """Return the original of a value that `split_value` returned; `read` returns a tensor by its place."""
    match value:
        case list():
            parts = []
            for number, child in enumerate(value):
                parts.append(joined_value(child, f"{place}.{number}", read))
            return parts
        case {"tuple": parts}:
            return tuple(joined_value(parts, place, read))
        case {"dict": children}:
            joined = {}
            for key, child in children.items():
                joined[key] = joined_value(child, f"{place}.{key}", read)
            return joined
        case {"on_host": on_host}:
            return read(place, on_host)

    return value


def _placed(
    read: Callable[[str], Tensor],
    parameter: Tensor,
    place: str,
    on_host: bool,
) -> Tensor:
    """Return a saved tensor of a parameter's state, on the parameter's device and with its memory layout.

    A tensor that was on the host, while its parameter was not, stays there.
    """
    saved = read(place)
    device = parameter.device
    if on_host:
        device = torch.device("cpu")
    same_shape = saved.shape == parameter.shape

    if isinstance(parameter, DTensor):
        if same_shape:
            return share_of(saved, parameter.detach())
        saved = saved.clone().to(device)
        if saved.ndim == 0:
            return saved
        # Adafactor's moments have other shapes, and are equal in all processes; see `sharding.Replicas`.
        return replicated(saved, parameter.device_mesh)

    # A fused optimiser needs moments with the parameter's memory layout.
    layout = parameter if same_shape else saved
    restored = torch.empty_like(
        layout,
        dtype=saved.dtype,
        device=device,
        requires_grad=False,
    )
    return restored.copy_(saved)
