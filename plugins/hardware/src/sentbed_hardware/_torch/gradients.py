"""The gradients of a trainer, and the step of its optimiser."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch.distributed.tensor import DTensor

from sentbed_hardware._common.processes import said
from sentbed_hardware._torch.sharding import Replicas, clip_gradients, replicated

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
    return said(highest[: len(signals)])


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
