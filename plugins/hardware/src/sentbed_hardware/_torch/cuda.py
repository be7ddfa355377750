"""The engine for a GPU.

Attention kernels: rows of equal length need no mask, and `scaled_dot_product_attention` then selects flash
attention (BERT; OPT and LLaMA with `is_causal`). T5 adds a bias to its scores, which only the
memory-efficient kernel supports. Attention over rows of different lengths (`torch.nn.attention.varlen`) would
not help: batches have almost no padding, and attention is a few percent of a layer at the length of
sentences. Nor would CUDA graphs: they save launches, but a batch of tens of thousands of tokens computes for
longer than its launches take, which run ahead of it anyway.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from sentbed import RuntimeUnavailableError
from sentbed.protocols import BuiltBackbone, TokenBatch
from torch import Tensor

from sentbed_hardware._torch.engine import TorchEngine
from sentbed_hardware._torch.loss_scaling import ScalingTrainer
from sentbed_hardware._torch.out_of_memory import FittingTrainer
from sentbed_hardware._torch.placed_encoder import TorchEncoder
from sentbed_hardware._torch.trainer import TorchTrainer
from sentbed_hardware.cuda_presence import built_without_cuda
from sentbed_hardware.engine_parts.calls_in_all_processes import in_all_processes
from sentbed_hardware.engine_parts.component_output_checks import Vectors
from sentbed_hardware.engine_parts.encoder_module import EncoderModule
from sentbed_hardware.torchrun_environment import is_member

AHEAD = 2
"""Batches that the GPU may be computing while the host prepares the next one."""

LARGEST_BUDGET, SMALLEST_BUDGET = 2**17, 2**12
"""Bounds of the tokens per batch."""
STATES_A_BATCH = 2**25
"""Approximate size of a batch's token states, in numbers, beyond which larger batches are no faster."""
NUMBERS_A_STATE = 64
"""Approximate upper bound of a layer's activations in memory, relative to the size of its token states:
T5-11B's inner layer is 64 times as wide as its states, BERT's four times."""
SHARE_OF_MEMORY = 8
"""A batch may take about 1 / SHARE_OF_MEMORY of the GPU's memory."""


class CudaEncoder(TorchEncoder):
    """An encoder whose GPU computes while the host prepares the next batches."""

    asynchronous = True

    def encode_batches(self, batches: Iterable[TokenBatch]) -> Iterator[Vectors]:
        """Yield the vectors of each batch, while the device computes those of the next."""
        if self.processes.world > 1:
            yield from map(self.encode, batches)
            return

        under_way: deque[tuple[Tensor, Any, TokenBatch]] = deque()
        for batch in batches:
            under_way.append((*self._sent(batch), batch))
            if len(under_way) > AHEAD:
                yield self._arrived(*under_way.popleft())

        while under_way:
            yield self._arrived(*under_way.popleft())

    def _sent(self, batch: TokenBatch) -> tuple[Tensor, Any]:
        """Start a batch; return the host tensor that will hold the vectors, and the event of their arrival."""
        vectors = self.vectors(batch)
        if vectors.device.type != "cuda":
            return vectors, None

        # A copy into memory that is not pinned would wait for the device.
        host = torch.empty(vectors.shape, dtype=vectors.dtype, pin_memory=True)
        host.copy_(vectors, non_blocking=True)
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(vectors.device))
        return host, event

    def _arrived(self, vectors: Tensor, event: Any, batch: TokenBatch) -> Vectors:
        """Wait for the vectors of a batch and return them."""
        if event is not None:
            event.synchronize()
        return self.checked(vectors.numpy(), batch)


class CudaEngine(TorchEngine):
    """An engine on one GPU. If `token_budget` is None, it is derived from the widths of the encoders."""

    encoder_class = CudaEncoder
    trainer_class: type[TorchTrainer] = FittingTrainer

    def __init__(
        self,
        device: torch.device,
        dtype: torch.dtype,
        compile: bool,
        facts: Mapping[str, Any],
        token_budget: int | None = None,
    ) -> None:
        super().__init__(device, dtype, compile, facts, token_budget or LARGEST_BUDGET)
        self.finds_budget = token_budget is None
        if dtype == torch.float16:
            self.trainer_class = ScalingTrainer
        # Runs of a study share a process, and the peak is to be that of this run.
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch leaves it untyped
            for index in range(torch.cuda.device_count()):
                torch.cuda.reset_peak_memory_stats(index)

    @in_all_processes
    def place(self, backbone: BuiltBackbone, module: EncoderModule) -> TorchEncoder:
        """Put an encoder on the device, and set the size of its batches."""
        encoder = super().place(backbone, module)

        if self.finds_budget:
            size = torch.cuda.get_device_properties(self.device).total_memory
            tokens = budget(backbone.width, self.placement.dtype.itemsize, size)
            if self.processes.first:
                tokens *= self.processes.world
            self.token_budget = min(self.token_budget, tokens)

        return encoder


def budget(width: int, bytes_a_number: int, memory: int) -> int:
    """Return the tokens per batch: enough to be fast, and few enough to fit beside the weights.

    It is a power of 2, and depends on the GPU's memory but not on how much is free, because the last bits of
    vectors change with the batches.
    """
    fits = memory // SHARE_OF_MEMORY // (NUMBERS_A_STATE * width * bytes_a_number)
    tokens = max(1, min(STATES_A_BATCH // width, fits))
    return min(LARGEST_BUDGET, max(SMALLEST_BUDGET, 1 << (tokens.bit_length() - 1)))


def claimed_gpu() -> torch.device:
    """Return the GPU of this process, after a first operation on it."""
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
            # A GPU that this PyTorch has no code for, or that another program has claimed exclusively, fails
            # here.
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
            f"process {index} of this machine (counted from 0) has no GPU of its own, there are {count}; "
            f"set `devices = {count}`"
        )

    return torch.device("cuda", index)
