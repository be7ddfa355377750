"""The gradients of a trainer, and the step of its optimiser."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from sentbed.helpers import fault
from sentbed.protocols import Columns, LossOutput
from torch.distributed.tensor import DTensor

from sentbed_hardware._common.random_generators import draws, rewind
from sentbed_hardware._torch.sharding import Replicas, clip_gradients, replicated
from sentbed_hardware.engine_parts.component_output_checks import (
    came_from,
    cut,
    frozen_nan,
    named_loss,
    named_parts,
)
from sentbed_hardware.engine_parts.process_group import interruption_in_words

if TYPE_CHECKING:
    from sentbed_hardware._torch.trainer import TorchTrainer


def add_up(trainer: TorchTrainer) -> str | None:
    """Sum the processes' gradients of their own rows; return which process was asked to end, if any.

    The loss has seen all rows, so the gradients of its own parameters are complete. They are not divided when
    others are averaged, as in a module under DDP, where each process has the complete gradient.
    """
    processes = trainer.engine.processes
    if processes.world == 1:
        return None
    of_loss = [p for name, p in trainer.parameters.items() if name in trainer.of_loss]
    of_towers = [p for name, p in trainer.parameters.items() if name not in trainer.of_loss]
    # Sharded gradients are summed in the backward pass.
    held = [parameter for parameter in of_towers if not isinstance(parameter, DTensor)]
    signals = processes.interruption()
    highest = processes.highest([*signals, *(parameter.grad is not None for parameter in held)])
    # A parameter with a gradient in one process needs one in all.
    for parameter, used in zip(held, highest[len(signals) :], strict=True):
        if used and parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    processes.sum([parameter.grad for parameter in held if parameter.grad is not None])
    if processes.local_gradient:
        for parameter in of_towers:
            if parameter.grad is not None:
                parameter.grad.div_(processes.world)
    processes.same([parameter.grad for parameter in of_loss if parameter.grad is not None])
    # Batch statistics, for example: each process has those of its own rows.
    processes.same([value for tower in trainer.towers.values() for value in tower.buffers.values()])
    return interruption_in_words(highest[: len(signals)])


def require_all(trainer: TorchTrainer) -> None:
    """Raise `PluginError` for a trained part of an encoder that no gradient reaches."""
    for name, tower in trainer.towers.items():
        if all(one.vectors.grad is None for one in trainer.made if one.tower is tower):
            wrong = f"built a module whose loss has no gradient for the vectors of the encoder `{name}`"
            raise fault(trainer.training.loss, "build", wrong)
        own = {key.partition(".")[2]: value.grad is not None for key, value in tower.parameters.items()}
        if (error := cut(name, tower.module, own)) is not None:
            raise error


def origin_of_fault(trainer: TorchTrainer, columns: Columns, output: LossOutput) -> str:
    """Return what gave the first number that is not finite in a step; "" if that cannot be told."""
    if trainer.engine.processes.world > 1:
        return ""
    for made in trainer.made:
        bad = torch.flatten(torch.nonzero(~torch.isfinite(made.vectors).all(1)))[:1].cpu().numpy()
        if len(bad):
            before = draws()
            origin = made.tower.origin_of_nan(made.tokens, made.texts_of(bad))
            rewind(before)
            return came_from(origin or f"the encoder `{made.tower.name}`")
    loss = named_loss(trainer.training.loss)
    if frozen_nan(columns):
        return came_from("a frozen encoder")
    if not torch.isfinite(output.loss):
        return came_from(f"{loss}: the vectors that it got have none")
    slopes = [made.vectors.grad for made in trainer.made if made.vectors.grad is not None]
    if not all(torch.isfinite(slope).all() for slope in slopes):
        return came_from(f"the gradient of {loss}")
    return came_from(f"the gradient of {named_parts(next(iter(trainer.towers.values())).module)}")


def clip(trainer: TorchTrainer) -> torch.Tensor:
    """Clip the gradients to the trainer's limit, and return their norm before."""
    parameters = list(trainer.parameters.values())
    limit = trainer.training.max_grad_norm or math.inf
    if trainer.mesh is not None:
        return clip_gradients(parameters, limit, trainer.engine.processes)
    return torch.nn.utils.clip_grad_norm_(parameters, limit)


def update(trainer: TorchTrainer) -> None:
    """Take the optimiser's step."""
    if trainer.mesh is None:
        trainer.optimizer.step()
        return
    for name, parameter in trainer.parameters.items():
        seen = trainer.optimized[name]
        if seen is not parameter:
            seen.grad = None if parameter.grad is None else replicated(parameter.grad, trainer.mesh)
    with Replicas(trainer.mesh):
        trainer.optimizer.step()


def forget(trainer: TorchTrainer) -> None:
    """Drop all gradients."""
    trainer.optimizer.zero_grad(set_to_none=True)
    for parameter in trainer.parameters.values():
        parameter.grad = None
