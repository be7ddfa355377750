"""A trainer's state in two files, without pickle: tensors as safetensors, everything else as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from sentbed import ModelError, RunError
from sentbed.helpers import read_json
from sentbed_common import host_draws, rewind_host
from torch.distributed.tensor import DTensor

from sentbed_hardware._common.process_messages import Own
from sentbed_hardware._common.random_generators import draws, rewind
from sentbed_hardware._common.tensor_files import (
    REMEDY,
    TENSORS_FILE,
    VALUES_FILE,
    read_tensors,
    write_tensors,
)
from sentbed_hardware._torch.sharding import replicated, share_of, whole
from sentbed_hardware.engine_parts.process_group import Processes

if TYPE_CHECKING:
    from sentbed_hardware._torch.trainer import TorchTrainer


def save(trainer: TorchTrainer, directory: Path) -> None:
    """Write the two files into `directory`.

    Raises:
        RunError: if the optimiser's state fits into neither.
    """
    values, tensors = trainer.engine.processes.together(collect, trainer)
    directory.mkdir(parents=True, exist_ok=True)
    write_tensors(tensors, directory / TENSORS_FILE)
    (directory / VALUES_FILE).write_text(json.dumps(values), "utf-8")


def load(trainer: TorchTrainer, directory: Path) -> None:
    """Restore what `save` wrote; nothing changes if it does not fit.

    Raises:
        ModelError: if a file cannot be read, or names or shapes differ.
    """
    path = directory / VALUES_FILE
    try:
        values = read_json(path)
    except (OSError, ValueError) as error:
        raise ModelError(f"`{path}` cannot be read: {error}; {REMEDY}") from error
    tensors = read_tensors(directory / TENSORS_FILE, REMEDY)
    _require_same(tensors, _held(trainer) | _replaced(trainer), directory)
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
    _require_whole(values, tensors, directory)
    shapes = {name: (tuple(value.shape), value.dtype) for name, value in tensors.items()}
    trainer.engine.processes.together(restore, trainer, values, shapes, Own(tensors))


def collect(trainer: TorchTrainer) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Return everything that determines later steps, in the first process: values for JSON, and tensors."""
    processes = trainer.engine.processes
    tensors = _held(trainer) | _replaced(trainer)
    optimizer = trainer.optimizer
    states = {
        name: _split(optimizer.state[parameter], f"optimizer.{name}", tensors)
        for name, parameter in trainer.optimized.items()
        if parameter in optimizer.state
    }
    settings = [
        _split({key: value for key, value in group.items() if key != "params"}, f"group.{number}", tensors)
        for number, group in enumerate(optimizer.param_groups)
    ]
    for name, value in tensors.items():
        if isinstance(value, DTensor):
            full = whole(value)
            tensors[name] = full.cpu() if processes.first else full.new_empty(0)
    random = processes.collect((draws(), trainer.common)) or []
    for rank, (drawn, common) in enumerate(random):
        start = "random" if rank == 0 else f"random.process-{rank}"
        tensors |= {f"{start}.{number}": value for number, value in enumerate(drawn)}
        if rank == 0:
            tensors |= {f"random.loss.{number}": value for number, value in enumerate(common or ())}
    values = {
        "steps": trainer.steps,
        "optimizer": type(optimizer).__name__,
        "groups": _groups(trainer),
        "settings": settings,
        "states": states,
        "random": host_draws(),
        "processes": processes.world,
        "tensors": sorted(tensors),
    }
    return values, tensors


def restore(
    trainer: TorchTrainer,
    values: Mapping[str, Any],
    shapes: Mapping[str, tuple[tuple[int, ...], torch.dtype]],
    tensors: Mapping[str, torch.Tensor] | None,
) -> None:
    """Restore what `collect` returned; only the first process gets `tensors`."""
    read = partial(_read, trainer.engine.processes, shapes, tensors)
    with torch.no_grad():
        for name, value in _held(trainer).items():
            value.copy_(share_of(read(name), value))
    if trainer.state is not None:
        device = trainer.engine.device
        trainer.state = {name: read(f"state.{name}").clone().to(device) for name in trainer.state}
    optimizer = trainer.optimizer
    optimizer.state.clear()
    for name, state in values["states"].items():
        parameter = trainer.optimized[name]
        optimizer.state[parameter] = _joined(state, read, parameter)
    for group, settings in zip(optimizer.param_groups, values["settings"], strict=True):
        # Values set by the recipe may have changed since.
        kept = _joined(settings, read, group["params"][0])
        group.update({key: value for key, value in kept.items() if key not in optimizer.defaults})
    trainer.steps = values["steps"]
    for tower in trainer.towers.values():
        tower.encoder.weights_changed()
    # Last, since the code above may have drawn random numbers.
    rewind_host(values["random"])
    _rewind(trainer, values, [name for name in shapes if name.startswith("random.")], read)


def _rewind(
    trainer: TorchTrainer,
    values: Mapping[str, Any],
    names: Sequence[str],
    read: Callable[[str], torch.Tensor],
) -> None:
    """Restore every process's generators; for a state of another number of processes, seed them again."""
    processes = trainer.engine.processes
    found = {name: read(name) for name in names}
    start = "random" if processes.first else f"random.process-{processes.rank}"
    own, common = (
        [found[f"{begin}.{number}"] for number in range(len(found)) if f"{begin}.{number}" in found]
        for begin in (start, "random.loss")
    )
    there = values.get("processes", 1)
    if there == processes.world and len(own) == len(draws()):
        rewind(own)
        trainer.common = common or None
        return
    trainer.reseed()
    if processes.world == 1:
        rewind([*own, *draws()[len(own) :]][: len(draws())])
    if processes.first:
        trainer.engine.say(
            f"the state is of {there} process{'es' * (there > 1)}, and there "
            f"{'is' if processes.world == 1 else 'are'} {processes.world}; dropout is drawn anew"
        )


def _read(
    processes: Processes,
    shapes: Mapping[str, tuple[tuple[int, ...], torch.dtype]],
    tensors: Mapping[str, torch.Tensor] | None,
    name: str,
) -> torch.Tensor:
    """Return a tensor of a state, read only by the first process."""
    if processes.world == 1 and tensors is not None:
        return tensors[name]
    shape, dtype = shapes[name]
    value = (torch.empty(shape, dtype=dtype) if tensors is None else tensors[name]).to(processes.device)
    if value.numel():
        processes.same([value])
    return value.cpu() if dtype == torch.uint8 else value


def _held(trainer: TorchTrainer) -> dict[str, torch.Tensor]:
    """Return the tensors that a step changes in place, by section and name."""
    held = {f"weights.{name}": parameter.detach() for name, parameter in trainer.parameters.items()}
    for tower in trainer.towers.values():
        held |= {f"buffers.{name}": value for name, value in tower.buffers.items()}
    held |= {f"buffers.loss.{name}": value for name, value in trainer.loss.named_buffers()}
    for average in trainer.averages.values():
        held |= {f"average.{name}": value for name, value in average.tensors.items()}
    for average in trainer.ema.values():
        held |= {f"ema.{name}": value for name, value in average.tensors.items()}
    return held


def _replaced(trainer: TorchTrainer) -> dict[str, torch.Tensor]:
    """Return the tensors that a step replaces by new ones."""
    return {f"state.{name}": value for name, value in (trainer.state or {}).items()}


def _groups(trainer: TorchTrainer) -> list[list[str]]:
    """Return the names of the parameters of each group of the optimiser."""
    names = {id(parameter): name for name, parameter in trainer.optimized.items()}
    return [[names[id(p)] for p in group["params"]] for group in trainer.optimizer.param_groups]


def _require_same(
    tensors: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor], directory: Path
) -> None:
    """Compare names, shapes and types of all tensors but the optimiser's, which has none in a new trainer."""
    sections = {name.split(".")[0] for name in expected} | {"weights", "buffers", "average", "state"}
    found = {name: value for name, value in tensors.items() if name.split(".")[0] in sections}
    for name in [*expected, *sorted(found)]:
        there, here = (_described(some.get(name)) for some in (found, expected))
        if there != here:
            raise ModelError(
                f"`{directory}` is not a state of this recipe: `{name}` is {there} there and {here} in the "
                f"recipe; {REMEDY}"
            )


def _require_whole(values: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], directory: Path) -> None:
    """Raise `ModelError` if a tensor of the optimiser does not stand where its name says, or nowhere.

    The optimiser would only notice in its next step, and say which key it lacks.
    """
    parts = {f"optimizer.{name}": state for name, state in values["states"].items()}
    parts |= {f"group.{number}": settings for number, settings in enumerate(values["settings"])}
    placed = dict(pair for path, part in parts.items() for pair in _placed(part, path))
    named = {name for name in tensors if name.startswith(("optimizer.", "group."))}
    wrong = [path for path, name in placed.items() if path != name] + sorted(named - placed.keys())
    if wrong:
        raise ModelError(
            f"`{VALUES_FILE}` in `{directory}` is damaged: `{wrong[0]}` of the optimiser is not where it was "
            f"written; {REMEDY}"
        )


def _placed(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each tensor in a value of `_split`, and the name that it has there."""
    if isinstance(value, list):
        yield from (pair for number, child in enumerate(value) for pair in _placed(child, f"{path}.{number}"))
    elif isinstance(value, dict) and "dict" in value:
        for key, child in value["dict"].items():
            yield from _placed(child, f"{path}.{key}")
    elif isinstance(value, dict) and "tuple" in value:
        yield from _placed(value["tuple"], path)
    elif isinstance(value, dict):
        yield path, value["tensor"]


def _described(value: torch.Tensor | None) -> str:
    return "missing" if value is None else f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"


def _split(value: Any, path: str, tensors: dict[str, torch.Tensor]) -> Any:
    """Return a value for JSON, moving its tensors into `tensors`."""
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


def _joined(value: Any, read: Callable[[str], torch.Tensor], parameter: torch.Tensor) -> Any:
    """Return the inverse of `_split`, for the optimiser's state of `parameter`."""
    if isinstance(value, list):
        return [_joined(child, read, parameter) for child in value]
    if not isinstance(value, dict):
        return value
    if "dict" in value:
        return {key: _joined(child, read, parameter) for key, child in value["dict"].items()}
    if "tuple" in value:
        return tuple(_joined(child, read, parameter) for child in value["tuple"])
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
    return torch.empty_like(shaped, dtype=saved.dtype, device=device, requires_grad=False).copy_(saved)
