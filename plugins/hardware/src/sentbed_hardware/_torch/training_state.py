"""A trainer's state in two files, without pickle: tensors as safetensors, everything else as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from sentbed import ModelError, RunError

from sentbed_hardware._torch.files import read_tensors, write_tensors
from sentbed_hardware._torch.randomness import draws, host_draws, rewind, rewind_host

if TYPE_CHECKING:
    from sentbed_hardware._torch.trainer import TorchTrainer

TENSORS_FILE = "state.safetensors"
VALUES_FILE = "state.json"
REMEDY = "go on from another state, or start again"


def save(trainer: TorchTrainer, directory: Path) -> None:
    """Write the two files into `directory`.

    Raises:
        RunError: where the optimiser holds what neither of them can.
    """
    tensors = _held(trainer) | _replaced(trainer)
    optimizer = trainer.optimizer
    states = {
        name: _split(optimizer.state[parameter], f"optimizer.{name}", tensors)
        for name, parameter in trainer.parameters.items()
        if parameter in optimizer.state
    }
    settings = [
        _split({key: value for key, value in group.items() if key != "params"}, f"group.{number}", tensors)
        for number, group in enumerate(optimizer.param_groups)
    ]
    values = {
        "steps": trainer.steps,
        "optimizer": type(optimizer).__name__,
        "groups": _groups(trainer),
        "settings": settings,
        "states": states,
        "random": host_draws(),
        "tensors": sorted(tensors),
    }
    directory.mkdir(parents=True, exist_ok=True)
    write_tensors(tensors, directory / TENSORS_FILE)
    (directory / VALUES_FILE).write_text(json.dumps(values), "utf-8")


def load(trainer: TorchTrainer, directory: Path) -> None:
    """Restore what `save` wrote; nothing is changed where it does not fit.

    Raises:
        ModelError: where a file cannot be read, or names or shapes differ.
    """
    path = directory / VALUES_FILE
    try:
        values = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"`{path}` cannot be read: {error}; {REMEDY}") from error
    tensors = read_tensors(directory / TENSORS_FILE, REMEDY)
    held, replaced = _held(trainer), _replaced(trainer)
    _require_same(tensors, held | replaced, directory)
    if values["tensors"] != sorted(tensors):
        raise ModelError(f"`{TENSORS_FILE}` and `{VALUES_FILE}` in `{directory}` are of two states; {REMEDY}")
    there, here = (
        (values["optimizer"], values["groups"]),
        (type(trainer.optimizer).__name__, _groups(trainer)),
    )
    if there != here:
        raise ModelError(
            f"`{directory}` holds the state of the optimiser {there[0]} over groups of "
            f"{[len(group) for group in there[1]]} parameters, the recipe has {here[0]} over "
            f"{[len(group) for group in here[1]]}; {REMEDY}"
        )
    with torch.no_grad():
        for name, value in held.items():
            value.copy_(tensors[name])
    if trainer.state is not None:
        device = trainer.engine.device
        trainer.state = {name: tensors[f"state.{name}"].clone().to(device) for name in trainer.state}
    optimizer = trainer.optimizer
    optimizer.state.clear()
    for name, state in values["states"].items():
        parameter = trainer.parameters[name]
        optimizer.state[parameter] = _joined(state, tensors, parameter)
    for group, settings in zip(optimizer.param_groups, values["settings"], strict=True):
        # What the recipe sets, it may have changed.
        kept = _joined(settings, tensors, group["params"][0])
        group.update({key: value for key, value in kept.items() if key not in optimizer.defaults})
    trainer.steps = values["steps"]
    for tower in trainer.towers.values():
        tower.encoder.weights_changed()
    # Last, since what was done until here may have drawn.
    rewind_host(values["random"])
    rewind([tensors[name] for name in replaced if name.startswith("random.")])


def _held(trainer: TorchTrainer) -> dict[str, torch.Tensor]:
    """Return the tensors that a step changes in place, by section and name."""
    held = {f"weights.{name}": parameter.detach() for name, parameter in trainer.parameters.items()}
    for tower in trainer.towers.values():
        held |= {f"buffers.{name}": value for name, value in tower.buffers.items()}
    held |= {f"buffers.loss.{name}": value for name, value in trainer.loss.named_buffers()}
    for average in trainer.averages.values():
        held |= {f"average.{name}": value for name, value in average.tensors.items()}
    return held


def _replaced(trainer: TorchTrainer) -> dict[str, torch.Tensor]:
    """Return the tensors of which a step makes new ones."""
    states = {f"state.{name}": value for name, value in (trainer.state or {}).items()}
    return states | {f"random.{number}": value for number, value in enumerate(draws())}


def _groups(trainer: TorchTrainer) -> list[list[str]]:
    """Return the names of the parameters of each group of the optimiser."""
    names = {id(parameter): name for name, parameter in trainer.parameters.items()}
    return [[names[id(p)] for p in group["params"]] for group in trainer.optimizer.param_groups]


def _require_same(
    tensors: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor], directory: Path
) -> None:
    """Compare names, shapes and types of all but the optimiser's tensors, which is empty in a new trainer."""
    sections = {name.split(".")[0] for name in expected} | {"weights", "buffers", "average", "state"}
    found = {name: value for name, value in tensors.items() if name.split(".")[0] in sections}
    for name in [*expected, *sorted(found)]:
        there, here = (_described(some.get(name)) for some in (found, expected))
        if there != here:
            raise ModelError(
                f"`{directory}` is not a state of this recipe: `{name}` is {there} there and {here} in the "
                f"recipe; {REMEDY}"
            )


def _described(value: torch.Tensor | None) -> str:
    return "missing" if value is None else f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"


def _split(value: Any, path: str, tensors: dict[str, torch.Tensor]) -> Any:
    """Return a value as JSON; its tensors are put into `tensors`."""
    if isinstance(value, torch.Tensor):
        tensors[path] = value
        return {"tensor": path, "on_host": value.device.type == "cpu"}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: _split(child, f"{path}.{key}", tensors) for key, child in value.items()}}
    if isinstance(value, list | tuple):
        children = [_split(child, f"{path}.{number}", tensors) for number, child in enumerate(value)]
        return {"tuple": children} if isinstance(value, tuple) else children
    if value is None or isinstance(value, str | int | float):
        return value
    raise RunError(
        f"`{path}` of the optimiser is a {type(value).__name__}, which cannot be saved; "
        "choose an optimiser whose state is tensors and numbers"
    )


def _joined(value: Any, tensors: Mapping[str, torch.Tensor], parameter: torch.Tensor) -> Any:
    """Return what `_split` was given, for the optimiser's state of `parameter`."""
    if isinstance(value, list):
        return [_joined(child, tensors, parameter) for child in value]
    if not isinstance(value, dict):
        return value
    if "dict" in value:
        return {key: _joined(child, tensors, parameter) for key, child in value["dict"].items()}
    if "tuple" in value:
        return tuple(_joined(child, tensors, parameter) for child in value["tuple"])
    saved = tensors[value["tensor"]]
    device = torch.device("cpu") if value["on_host"] else parameter.device
    # A fused optimiser expects its moments in the parameter's layout.
    shaped = parameter if saved.shape == parameter.shape else saved
    return torch.empty_like(shaped, dtype=saved.dtype, device=device, requires_grad=False).copy_(saved)
