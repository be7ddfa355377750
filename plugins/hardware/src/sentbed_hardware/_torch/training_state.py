"""What of an optimiser and of random numbers a stopped stage goes on from, without pickle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch
from sentbed import ModelError, RunError
from torch.distributed.tensor import DTensor

from sentbed_hardware._torch.sharding import replicated, share_of
from sentbed_hardware.engine_parts.process_group import Processes
from sentbed_hardware.engine_parts.state_files import (
    REMEDY,
    VALUES_FILE,
    require_same_tensors,
)

Shapes: TypeAlias = Mapping[str, tuple[tuple[int, ...], torch.dtype]]
"""Shape and type of each tensor of a state, by its name."""

OF_OPTIMIZER = ("optimizer.", "group.")
"""How the names of the optimiser's tensors begin."""
RANDOM = "random"
"""How the names of the generators' states begin."""


class TensorReader:
    """The tensors of a state by name, in every process; only the first one has read them."""

    def __init__(
        self,
        processes: Processes,
        shapes: Shapes,
        tensors: Mapping[str, torch.Tensor] | None,
    ) -> None:
        self.processes = processes
        self.shapes = shapes
        self.tensors = tensors

    def __call__(self, name: str) -> torch.Tensor:
        """Return a tensor; every process asks for the same one."""
        if self.tensors is not None:
            value = self.tensors[name]
        else:
            shape, dtype = self.shapes[name]
            value = torch.empty(shape, dtype=dtype)
        if self.processes.world == 1:
            return value
        value = value.to(self.processes.device)
        if value.numel():
            self.processes.same([value])
        if value.dtype == torch.uint8:
            return value.cpu()
        return value


def groups_of(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, torch.Tensor]
) -> list[list[str]]:
    """Return the names of the parameters of each group of an optimiser."""
    names = {id(parameter): name for name, parameter in parameters.items()}
    groups = []
    for group in optimizer.param_groups:
        groups.append([names[id(parameter)] for parameter in group["params"]])
    return groups


def optimizer_values(
    optimizer: torch.optim.Optimizer,
    parameters: Mapping[str, torch.Tensor],
    tensors: dict[str, torch.Tensor],
) -> dict[str, Any]:
    """Return an optimiser's state and settings for JSON, moving their tensors into `tensors`.

    Raises:
        RunError: if the state can be written into no file.
    """
    states = {}
    for name, parameter in parameters.items():
        if parameter in optimizer.state:
            state = optimizer.state[parameter]
            states[name] = split_value(state, f"optimizer.{name}", tensors)
    settings = []
    for number, group in enumerate(optimizer.param_groups):
        kept = {key: value for key, value in group.items() if key != "params"}
        settings.append(split_value(kept, f"group.{number}", tensors))
    return {
        "optimizer": type(optimizer).__name__,
        "groups": groups_of(optimizer, parameters),
        "settings": settings,
        "states": states,
    }


def restore_optimizer(
    optimizer: torch.optim.Optimizer,
    parameters: Mapping[str, torch.Tensor],
    values: Mapping[str, Any],
    read: Callable[[str], torch.Tensor],
) -> None:
    """Restore what `optimizer_values` returned."""
    optimizer.state.clear()
    for name, state in values["states"].items():
        parameter = parameters[name]
        optimizer.state[parameter] = joined_value(state, read, parameter)
    for group, saved in zip(optimizer.param_groups, values["settings"], strict=True):
        settings = joined_value(saved, read, group["params"][0])
        for key, value in settings.items():
            # Values set by the recipe may have changed since.
            if key not in optimizer.defaults:
                group[key] = value


def require_fitting(
    values: Mapping[str, Any],
    tensors: Mapping[str, torch.Tensor],
    expected: Mapping[str, torch.Tensor],
    optimizer: torch.optim.Optimizer,
    parameters: Mapping[str, torch.Tensor],
    directory: Path,
) -> None:
    """Raise `ModelError` if a state is not that of a trainer with these tensors and this optimiser."""
    others = {}
    for name, value in tensors.items():
        # A new optimiser has no tensors yet.
        if not name.startswith((*OF_OPTIMIZER, f"{RANDOM}.")):
            others[name] = value
    require_same_tensors(others, expected, directory)
    saved_name, saved_groups = values["optimizer"], values["groups"]
    name, groups = type(optimizer).__name__, groups_of(optimizer, parameters)
    if (saved_name, saved_groups) != (name, groups):
        raise ModelError(
            f"`{directory}` holds the state of the optimiser {saved_name} over groups of "
            f"{[len(group) for group in saved_groups]} parameters, the recipe has {name} over "
            f"{[len(group) for group in groups]}; {REMEDY}"
        )
    _require_whole_optimizer(values, tensors, directory)


def _require_whole_optimizer(
    values: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], directory: Path
) -> None:
    """Raise `ModelError` if a tensor of the optimiser does not stand where its name says, or nowhere.

    The optimiser would only notice in its next step, and say which key it lacks.
    """
    placed: dict[str, str] = {}
    for name, state in values["states"].items():
        placed.update(_placed(state, f"optimizer.{name}"))
    for number, settings in enumerate(values["settings"]):
        placed.update(_placed(settings, f"group.{number}"))
    named = {name for name in tensors if name.startswith(OF_OPTIMIZER)}
    wrong = [path for path, name in placed.items() if path != name]
    wrong += sorted(named - placed.keys())
    if wrong:
        raise ModelError(
            f"`{VALUES_FILE}` in `{directory}` is damaged: `{wrong[0]}` of the optimiser is not where it was "
            f"written; {REMEDY}"
        )


def _placed(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each tensor in a value of `split_value`, and the name that it has there."""
    children: Mapping[Any, Any] = {}
    if isinstance(value, list):
        children = dict(enumerate(value))
    elif isinstance(value, dict) and "dict" in value:
        children = value["dict"]
    elif isinstance(value, dict) and "tuple" in value:
        children = dict(enumerate(value["tuple"]))
    elif isinstance(value, dict):
        yield path, value["tensor"]
    for key, child in children.items():
        yield from _placed(child, f"{path}.{key}")


def split_value(value: Any, path: str, tensors: dict[str, torch.Tensor]) -> Any:
    """Return a value for JSON, moving its tensors into `tensors`."""
    if isinstance(value, torch.Tensor):
        tensors[path] = value
        return {"tensor": path, "on_host": value.device.type == "cpu"}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        parts = {}
        for key, child in value.items():
            parts[key] = split_value(child, f"{path}.{key}", tensors)
        return {"dict": parts}
    if isinstance(value, list | tuple):
        children = []
        for number, child in enumerate(value):
            children.append(split_value(child, f"{path}.{number}", tensors))
        if isinstance(value, tuple):
            return {"tuple": children}
        return children
    if value is None or isinstance(value, str | int | float):
        return value
    raise RunError(
        f"`{path}` of the optimiser is a {type(value).__name__}, which cannot be saved; "
        "choose an optimiser whose state is tensors and numbers"
    )


def joined_value(
    value: Any, read: Callable[[str], torch.Tensor], parameter: torch.Tensor
) -> Any:
    """Return the inverse of `split_value`, for the optimiser's state of `parameter`."""
    if isinstance(value, list):
        return [joined_value(child, read, parameter) for child in value]
    if not isinstance(value, dict):
        return value
    if "dict" in value:
        children = value["dict"].items()
        return {key: joined_value(child, read, parameter) for key, child in children}
    if "tuple" in value:
        return tuple(joined_value(value["tuple"], read, parameter))
    saved = read(value["tensor"])
    device = parameter.device
    if value["on_host"]:
        device = torch.device("cpu")
    same_shape = saved.shape == parameter.shape
    if isinstance(parameter, DTensor):
        if same_shape:
            return share_of(saved, parameter.detach())
        saved = saved.clone().to(device)
        if saved.ndim == 0:
            return saved
        # See `sharding.Replicas`.
        return replicated(saved, parameter.device_mesh)
    # A fused optimiser expects its moments in the parameter's layout.
    layout = parameter if same_shape else saved
    restored = torch.empty_like(
        layout, dtype=saved.dtype, device=device, requires_grad=False
    )
    return restored.copy_(saved)


def by_number(states: Sequence[torch.Tensor], start: str) -> dict[str, torch.Tensor]:
    """Return tensors under the names `START.0`, `START.1` and so on."""
    return {f"{start}.{number}": value for number, value in enumerate(states)}


def numbered(tensors: Mapping[str, torch.Tensor], start: str) -> list[torch.Tensor]:
    """Return the tensors `START.0`, `START.1` and so on."""
    values: list[torch.Tensor] = []
    while (name := f"{start}.{len(values)}") in tensors:
        values.append(tensors[name])
    return values
