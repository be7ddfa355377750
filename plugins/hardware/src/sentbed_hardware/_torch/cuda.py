"""The engine for a GPU.

Attention kernels: a batch of texts with equal length needs no mask, and `scaled_dot_product_attention` then
selects flash attention (BERT; OPT and LLaMA with `is_causal`). T5 adds a bias to its attention scores, and only
the memory-efficient kernel supports a bias.

Two optimisations were left out. `torch.nn.attention.varlen` avoids padding, but batches have almost no padding,
and attention takes a few percent of a layer's time at the length of sentences. CUDA graphs save the time of
kernel launches; but a batch has tens of thousands of tokens, for which a kernel runs longer than its launch
takes, so that the GPU never waits for a launch.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch
from sentbed import RuntimeUnavailableError
from sentbed.protocols import BuiltBackbone

from sentbed_hardware._torch.engine import TorchEngine
from sentbed_hardware._torch.placed_encoder import TorchEncoder
from sentbed_hardware.cuda_presence import built_without_cuda
from sentbed_hardware.engine_parts.calls_in_all_processes import in_all_processes
from sentbed_hardware.engine_parts.encoder_module import EncoderModule
from sentbed_hardware.torchrun_environment import is_member

LARGEST_BUDGET, SMALLEST_BUDGET = 2**17, 2**12
"""The largest and the smallest number of tokens per batch that `budget` returns."""
NUMBERS_PER_BATCH = 2**25
"""Number of floating-point numbers in a batch's token states beyond which larger batches are no faster."""
ACTIVATIONS_PER_STATE = 64
"""Largest assumed ratio of the size of a layer's activations to that of its token states. The inner layer of
T5-11B is 64 times as wide as its token states, that of BERT is four times as wide."""
SHARE_OF_MEMORY = 8
"""A batch may take about 1 / SHARE_OF_MEMORY of the GPU's memory."""


class CudaEngine(TorchEngine):
    """An engine on a GPU. If `token_budget` is None, it follows from the GPU and the encoders; see `budget`."""

    def __init__(
        self,
        device: torch.device,
        dtype: torch.dtype,
        facts: Mapping[str, Any],
        token_budget: int | None = None,
    ) -> None:
        super().__init__(device, dtype, facts, token_budget or LARGEST_BUDGET)
        self.derives_budget = token_budget is None
        # Runs of a study share a process, and `counters` returns the peak memory of a single run.
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch leaves it untyped
            for index in range(torch.cuda.device_count()):
                torch.cuda.reset_peak_memory_stats(index)

    @in_all_processes
    def place(self, backbone: BuiltBackbone, module: EncoderModule) -> TorchEncoder:
        """Put an encoder on the device, and set the number of tokens per batch if the recipe does not."""
        encoder = super().place(backbone, module)

        if self.derives_budget:
            size = torch.cuda.get_device_properties(self.device).total_memory
            tokens = budget(backbone.width, self.placement.dtype.itemsize, size)
            if self.processes.first:
                # The first process cuts the batches, and all processes share each batch.
                tokens *= self.processes.world
            self.token_budget = min(self.token_budget, tokens)

        return encoder


def budget(
    width: int,
    bytes_a_number: int,
    memory: int,
) -> int:
    """Return a number of tokens per batch that is fast and fits into the GPU's memory beside the weights.

    `width` is that of the token states, `memory` the size of the memory in bytes. The number is a power of 2. It
    does not depend on how much memory is free, because the last bits of vectors change with the batch size.
    """
    bytes_a_token = ACTIVATIONS_PER_STATE * width * bytes_a_number
    fitting = memory // SHARE_OF_MEMORY // bytes_a_token
    tokens = max(1, min(NUMBERS_PER_BATCH // width, fitting))
    power_of_2 = 1 << (tokens.bit_length() - 1)
    return min(LARGEST_BUDGET, max(SMALLEST_BUDGET, power_of_2))


def claimed_gpu() -> torch.device:
    """Return the GPU of this process, after testing it by a first operation.

    Raises:
        RuntimeUnavailableError: if PyTorch is built without CUDA, or this process has no usable GPU.
    """
    if not torch.backends.cuda.is_built():  # type: ignore[no-untyped-call]
        raise RuntimeUnavailableError(built_without_cuda(torch.__version__))

    index = 0
    if is_member():
        index = int(os.environ.get("LOCAL_RANK", "0"))
    try:
        count = torch.cuda.device_count()
        torch.cuda.init()  # type: ignore[no-untyped-call]
        if index < count:
            torch.cuda.set_device(index)
            # This fails if this PyTorch has no code for the GPU, or if another program uses it exclusively.
            torch.zeros(1, device="cuda").add_(1).item()
    except RuntimeError as error:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        limited = ""
        if visible is not None:
            limited = f" (`CUDA_VISIBLE_DEVICES` is {visible!r})"
        raise RuntimeUnavailableError(
            f"no GPU can be used{limited}: {str(error).splitlines()[0].rstrip('.')}; see whether "
            '`nvidia-smi` lists one, with a driver that is new enough for this PyTorch, or take `use = "cpu"`'
        ) from error

    if index >= count:
        raise RuntimeUnavailableError(
            f"there is no GPU for process {index} of this machine (counted from 0), which has {count} GPUs; "
            f"set `devices = {count}`"
        )

    return torch.device("cuda", index)
