"""Sharding of weights over processes (FSDP2)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from sentbed import RunError
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor
from torch.overrides import TorchFunctionMode

from sentbed_hardware.engine_parts.process_group import Processes


def shard(
    backbone: nn.Module,
    processes: Processes,
    dtype: torch.dtype,
) -> None:
    """Shard the weights of a backbone over processes, in place.

    The weights of a block (a transformer layer) are gathered only while it computes, in `dtype`. Gradients are
    summed in fp32.

    Raises:
        RunError: if the backbone has weights in 4 bits.
    """
    for name, parameter in backbone.named_parameters():
        if not parameter.is_floating_point():
            raise RunError(
                f'`{name}` is held in 4 bits, which cannot be spread over processes; set `parallel = "ddp"`'
            )

    # FSDP warns that in-place operations on a block's output are wrong; blocks of transformers have none.
    warnings.filterwarnings("ignore", "FSDP2-wrapped module", UserWarning)
    mesh = mesh_of(processes)
    weights_dtype = None
    if dtype != torch.float32:
        weights_dtype = dtype
    policy = MixedPrecisionPolicy(
        param_dtype=weights_dtype,
        reduce_dtype=torch.float32,
        # Autocast casts inputs where it is right. FSDP would also cast the values of an attention mask.
        cast_forward_inputs=False,
    )
    for module in (*_blocks(backbone), backbone):
        fully_shard(
            module,
            mesh=mesh,
            reshard_after_forward=True,
            mp_policy=policy,
        )

    for module in backbone.modules():
        if isinstance(module, FSDPModule):
            # All processes compute the loss of the whole batch, and each has the gradient through its own rows.
            # So gradients are summed, not averaged.
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)


def mesh_of(processes: Processes) -> DeviceMesh:
    """Return a one-dimensional `DeviceMesh` of the processes."""
    return DeviceMesh.from_group(processes.data, processes.device.type)


def _blocks(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the layers of a transformer: those members of the outermost `ModuleList`s that have weights."""
    for child in module.children():
        if not isinstance(child, nn.ModuleList):
            yield from _blocks(child)
            continue

        for block in child:
            if list(block.parameters()):
                yield block


def whole(value: Tensor) -> Tensor:
    """Return a tensor, gathered from all processes if it is sharded. All processes have to call this."""
    if isinstance(value, DTensor):
        return value.full_tensor()

    return value


def share_of(value: Tensor, like: Tensor) -> Tensor:
    """Return a whole tensor in the form of `like`: sharded in the same way if `like` is sharded, else whole."""
    if not isinstance(like, DTensor):
        return value

    value = value.to(like.device)
    return distribute_tensor(
        value, like.device_mesh, like.placements, src_data_rank=None
    )


def replicated(value: Tensor, mesh: DeviceMesh) -> DTensor:
    """Return a DTensor with the memory of `value`, a tensor that is equal in all processes."""
    return DTensor.from_local(value.detach(), mesh, [Replicate()], run_check=False)


def gather_weights(module: nn.Module, processes: Processes) -> dict[int, nn.Parameter]:
    """Gather the sharded weights of a module on the host of the first process.

    Returns `id` of the sharded parameter -> whole parameter, and nothing in the other processes.
    """
    weights = {}
    for parameter in module.parameters():
        if isinstance(parameter, DTensor):
            full = parameter.full_tensor().detach()
            if processes.first:
                on_host = nn.Parameter(full.cpu(), parameter.requires_grad)
                weights[id(parameter)] = on_host

    return weights


@contextmanager
def in_place(module: nn.Module, weights: Mapping[int, nn.Parameter]) -> Iterator[None]:
    """While active, the module has the whole weights from `gather_weights`, so that it can be saved."""
    before = []
    for part in module.modules():
        before.append((part, dict(part._parameters)))
        for name, parameter in part._parameters.items():
            part._parameters[name] = weights.get(id(parameter), parameter)

    try:
        yield
    finally:
        for part, parameters in before:
            part._parameters.update(parameters)


class Replicas(TorchFunctionMode):
    """While active, `torch.zeros` returns DTensors that are equal in all processes.

    Adafactor calls `torch.zeros` to create its row and column moments, and sharded weights need DTensors there.
    """

    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__()
        self.mesh = mesh

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        """Call a function of torch; turn the result of `torch.zeros` into a DTensor unless it is a scalar.

        A scalar is an optimiser's counter of steps.
        """
        result = func(*args, **(kwargs or {}))
        if func is torch.zeros and result.ndim:
            return replicated(result, self.mesh)

        return result
