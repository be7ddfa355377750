"""The device and the precision of an engine's modules, and the size of its batches for encoding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import attrs
import torch
from numpy.typing import NDArray
from sentbed import RunError
from sentbed.protocols import TokenBatch
from torch import Tensor

Say: TypeAlias = Callable[[str], None]
"""Function that shows the user a message."""

ModuleArguments: TypeAlias = tuple[tuple[Tensor | None, ...], dict[str, Any]]
"""The positional and the keyword arguments for a call of a backbone's module."""


@attrs.define(eq=False)
class Placement:
    """The device of this process, and the precision in which modules compute on it."""

    device: torch.device
    dtype: torch.dtype
    """The precision in which backbones compute."""

    def autocast(self) -> torch.autocast:
        """Return a context in which a backbone with fp32 weights computes in `dtype`."""
        low_precision = self.dtype != torch.float32
        return torch.autocast(self.device.type, self.dtype, low_precision)

    def put(self, array: NDArray[Any]) -> Tensor:
        """Return an array as a tensor on the device. The copy to a GPU runs asynchronously."""
        tensor = torch.from_numpy(array)
        if self.device.type != "cuda":
            return tensor.to(self.device)

        return tensor.pin_memory().to(self.device, non_blocking=True)

    def tensors(self, batch: TokenBatch) -> tuple[Tensor, Tensor | None]:
        """Return the ids and the mask of a batch as tensors on the device."""
        ids = self.put(batch.input_ids)
        if batch.attention_mask is None:
            return ids, None

        return ids, self.put(batch.attention_mask)

    def arguments(self, batch: TokenBatch) -> ModuleArguments:
        """Return a batch as arguments of a backbone's module, on the device."""
        positional: tuple[Tensor | None, ...] = self.tensors(batch)
        if batch.prefix is not None:
            positional = (*positional, self.put(batch.prefix))

        keywords: dict[str, Any] = {}
        for name, values in batch.keywords.items():
            keywords[name] = self.put(values)

        if batch.auxiliary is not None:
            keywords["auxiliary"] = self.tensors(batch.auxiliary)
        return positional, keywords

    @contextmanager
    def fitting(self) -> Iterator[None]:
        """While active, turn torch's error that the device is out of memory into a `RunError`."""
        try:
            yield
        except torch.OutOfMemoryError as error:
            raise RunError(
                f"weights and batch do not fit into {self.memory}; set a smaller `micro_batch`, `max_length` or "
                '`token_budget`, `precision = "bf16"` in the runtime, `dtype = "bf16"`, `quantization = "nf4"` '
                'or `lora` in the backbone, or spread the weights over several GPUs (`device_map = "auto"`, '
                '`parallel = "fsdp"`)'
            ) from error

    @property
    def memory(self) -> str:
        """A phrase for messages: the size of the GPU's memory that this process may use, or "the memory" for a
        CPU."""
        if self.device.type != "cuda":
            return "the memory"

        share = torch.cuda.get_per_process_memory_fraction(self.device)
        size = torch.cuda.get_device_properties(self.device).total_memory
        return f"{share * size / 2**30:.1f} GiB"


@attrs.define(eq=False)
class BatchSize:
    """The size of batches for encoding. All encoders of an engine share one object."""

    token_budget: int
    """Largest number of tokens of a batch, which all processes share."""
    most_tokens: int | None = None
    """Largest number of tokens that a process encodes at a time; None as long as every batch has fitted into
    memory."""
