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


def shard(backbone: nn.Module, processes: Processes, dtype: torch.dtype) -> None:
    """Shard the weights of a backbone over processes; each block is gathered only while it computes.

    Blocks are gathered in `dtype`, and gradients are summed in fp32.

    Raises:
        RunError: for weights in 4 bits.
    """
    for name, parameter in backbone.named_parameters():
        if not parameter.is_floating_point():
            raise RunError(
                f'`{name}` is held in 4 bits, which cannot be spread over processes; set `parallel = "ddp"`'
            )

    # FSDP warns of in-place operations on a block's output; transformers' blocks have none.
    warnings.filterwarnings("ignore", "FSDP2-wrapped module", UserWarning)
    mesh = mesh_of(processes)
    # Autocast casts inputs where it is needed; a mask in bf16 would be a different mask.
    gathered_in = None
    if dtype != torch.float32:
        gathered_in = dtype
    policy = MixedPrecisionPolicy(
        param_dtype=gathered_in,
        reduce_dtype=torch.float32,
        cast_forward_inputs=False,
    )
    for module in (*_blocks(backbone), backbone):
        fully_shard(module, mesh=mesh, reshard_after_forward=True, mp_policy=policy)

    for module in backbone.modules():
        if isinstance(module, FSDPModule):
            # All processes compute the same loss, and each has its gradient for its own rows only.
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)


def mesh_of(processes: Processes) -> DeviceMesh:
    """Return the processes as a `DeviceMesh`."""
    return DeviceMesh.from_group(processes.data, processes.device.type)


def _blocks(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the members of the outermost `ModuleList`s that have weights: the layers of a transformer."""
    for child in module.children():
        if not isinstance(child, nn.ModuleList):
            yield from _blocks(child)
            continue

        for block in child:
            if list(block.parameters()):
                yield block


def whole(value: Tensor) -> Tensor:
    """Return the whole of a tensor that may be sharded; all processes have to call this."""
    if isinstance(value, DTensor):
        return value.full_tensor()

    return value


def share_of(value: Tensor, like: Tensor) -> Tensor:
    """Return this process's shard of a whole tensor, sharded like `like`."""
    if not isinstance(like, DTensor):
        return value

    value = value.to(like.device)
    return distribute_tensor(
        value, like.device_mesh, like.placements, src_data_rank=None
    )


def replicated(value: Tensor, mesh: DeviceMesh) -> DTensor:
    """Return a tensor that is equal in all processes as a DTensor over the same memory."""
    return DTensor.from_local(value.detach(), mesh, [Replicate()], run_check=False)


def gather_weights(module: nn.Module, processes: Processes) -> dict[int, nn.Parameter]:
    """Return the sharded weights, gathered on the host of the first process, by their `id`."""
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
    """While active, the module has the whole weights of `gather_weights`, for saving."""
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

    Adafactor creates its row and column moments with it.
    """

    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__()
        self.mesh = mesh

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Wrap the result of `torch.zeros`, unless it is a scalar, which counts steps."""
        result = func(*args, **(kwargs or {}))
        if func is torch.zeros and result.ndim:
            return replicated(result, self.mesh)

        return result
