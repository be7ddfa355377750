"""A trainer's state in two files, without pickle: tensors as safetensors, everything else as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from sentbed import ModelError, RunError
from sentbed.helpers import read_json
from torch.distributed.tensor import DTensor

from sentbed_hardware._common.tensor_files import (
    REMEDY,
    TENSORS_FILE,
    VALUES_FILE,
    read_tensors,
    write_tensors,
)
from sentbed_hardware._torch.sharding import replicated, share_of
from sentbed_hardware.engine_parts.process_group import Processes


def write_state(
    directory: Path, values: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]
) -> None:
    """Write the two files into `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    write_tensors(tensors, directory / TENSORS_FILE)
    (directory / VALUES_FILE).write_text(json.dumps(values), "utf-8")


def read_state(directory: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Return the values and tensors of the two files.

    Raises:
        ModelError: if a file cannot be read.
    """
    path = directory / VALUES_FILE
    try:
        values: dict[str, Any] = read_json(path)
    except (OSError, ValueError) as error:
        raise ModelError(f"`{path}` cannot be read: {error}; {REMEDY}") from error
    return values, read_tensors(directory / TENSORS_FILE, REMEDY)


class TensorReader:
    """The tensors of a state by name, in every process; only the first one has read them."""

    def __init__(
        self,
        processes: Processes,
        shapes: Mapping[str, tuple[tuple[int, ...], torch.dtype]],
        tensors: Mapping[str, torch.Tensor] | None,
    ) -> None:
        self.processes = processes
        self.shapes = shapes
        self.tensors = tensors

    def __call__(self, name: str) -> torch.Tensor:
        """Return a tensor; every process asks for the same one."""
        if self.processes.world == 1 and self.tensors is not None:
            return self.tensors[name]
        shape, dtype = self.shapes[name]
        value = (
            torch.empty(shape, dtype=dtype)
            if self.tensors is None
            else self.tensors[name]
        )
        value = value.to(self.processes.device)
        if value.numel():
            self.processes.same([value])
        return value.cpu() if dtype == torch.uint8 else value


def require_same_tensors(
    tensors: Mapping[str, torch.Tensor],
    expected: Mapping[str, torch.Tensor],
    directory: Path,
) -> None:
    """Raise `ModelError` if a tensor has another name, shape or type than expected.

    Tensors of the optimiser are left out: it has none in a new trainer.
    """
    sections = {name.split(".")[0] for name in expected} | {
        "weights",
        "buffers",
        "average",
        "state",
    }
    saved = {
        name: value for name, value in tensors.items() if name.split(".")[0] in sections
    }
    for name in [*expected, *sorted(saved)]:
        saved_as, expected_as = (
            _described(saved.get(name)),
            _described(expected.get(name)),
        )
        if saved_as != expected_as:
            raise ModelError(
                f"`{directory}` is not a state of this recipe: `{name}` is {saved_as} there and {expected_as} in "
                f"the recipe; {REMEDY}"
            )


def require_one_state(
    values: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], directory: Path
) -> None:
    """Raise `ModelError` if the two files were not written together."""
    if values["tensors"] != sorted(tensors):
        raise ModelError(
            f"`{TENSORS_FILE}` and `{VALUES_FILE}` in `{directory}` are of two states; {REMEDY}"
        )


def require_whole_optimizer(
    values: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], directory: Path
) -> None:
    """Raise `ModelError` if a tensor of the optimiser does not stand where its name says, or nowhere.

    The optimiser would only notice in its next step, and say which key it lacks.
    """
    parts = {f"optimizer.{name}": state for name, state in values["states"].items()}
    parts |= {
        f"group.{number}": settings
        for number, settings in enumerate(values["settings"])
    }
    placed = dict(pair for path, part in parts.items() for pair in _placed(part, path))
    named = {name for name in tensors if name.startswith(("optimizer.", "group."))}
    wrong = [path for path, name in placed.items() if path != name] + sorted(
        named - placed.keys()
    )
    if wrong:
        raise ModelError(
            f"`{VALUES_FILE}` in `{directory}` is damaged: `{wrong[0]}` of the optimiser is not where it was "
            f"written; {REMEDY}"
        )


def _placed(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each tensor in a value of `split_value`, and the name that it has there."""
    if isinstance(value, list):
        yield from (
            pair
            for number, child in enumerate(value)
            for pair in _placed(child, f"{path}.{number}")
        )
    elif isinstance(value, dict) and "dict" in value:
        for key, child in value["dict"].items():
            yield from _placed(child, f"{path}.{key}")
    elif isinstance(value, dict) and "tuple" in value:
        yield from _placed(value["tuple"], path)
    elif isinstance(value, dict):
        yield path, value["tensor"]


def _described(value: torch.Tensor | None) -> str:
    return (
        "missing"
        if value is None
        else f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
    )


def split_value(value: Any, path: str, tensors: dict[str, torch.Tensor]) -> Any:
    """Return a value for JSON, moving its tensors into `tensors`."""
    if isinstance(value, torch.Tensor):
        tensors[path] = value
        return {"tensor": path, "on_host": value.device.type == "cpu"}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {
            "dict": {
                key: split_value(child, f"{path}.{key}", tensors)
                for key, child in value.items()
            }
        }
    if isinstance(value, list | tuple):
        children = [
            split_value(child, f"{path}.{number}", tensors)
            for number, child in enumerate(value)
        ]
        return {"tuple": children} if isinstance(value, tuple) else children
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
        return {
            key: joined_value(child, read, parameter)
            for key, child in value["dict"].items()
        }
    if "tuple" in value:
        return tuple(joined_value(child, read, parameter) for child in value["tuple"])
    saved = read(value["tensor"])
    device = torch.device("cpu") if value["on_host"] else parameter.device
    if isinstance(parameter, DTensor):
        if saved.shape == parameter.shape:
            return share_of(saved, parameter.detach())
        # See `sharding.Replicas`.
        saved = saved.clone().to(device)
        return replicated(saved, parameter.device_mesh) if saved.ndim else saved
    # A fused optimiser expects its moments in the parameter's layout.
    shaped = parameter if saved.shape == parameter.shape else saved
    return torch.empty_like(
        shaped, dtype=saved.dtype, device=device, requires_grad=False
    ).copy_(saved)
