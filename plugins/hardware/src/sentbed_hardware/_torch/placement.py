"""The device and the precision of an engine's modules, and the size of batches for encoding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import attrs
import torch
from numpy.typing import NDArray
from sentbed.protocols import TokenBatch
from torch import Tensor

HOST_BUDGET = 4096
"""Tokens per batch on a CPU: matrix products are fastest from about 2,000 tokens on, and larger batches do not
fit into its cache."""

Say: TypeAlias = Callable[[str], None]
"""Function that shows the user a message."""

ModuleArguments: TypeAlias = tuple[tuple[Tensor | None, ...], dict[str, Any]]
"""Positional and keyword arguments of a backbone's module."""


@attrs.define(eq=False)
class Placement:
    """A device of this process, and how modules compute on it."""

    device: torch.device
    dtype: torch.dtype
    """The precision of backbones."""
    compile: bool = False
    """Whether `torch.compile` compiles them."""

    def autocast(self) -> torch.autocast:
        """Return autocast to this precision, for a backbone whose weights are fp32."""
        low_precision = self.dtype != torch.float32
        return torch.autocast(self.device.type, self.dtype, low_precision)

    def put(self, array: NDArray[Any]) -> Tensor:
        """Put an array on the device; on a GPU, without waiting for the copy."""
        tensor = torch.from_numpy(array)
        if self.device.type != "cuda":
            return tensor.to(self.device)

        return tensor.pin_memory().to(self.device, non_blocking=True)

    def tensors(self, batch: TokenBatch) -> tuple[Tensor, Tensor | None]:
        """Put the ids and the mask of a batch on the device."""
        ids = self.put(batch.input_ids)
        if batch.attention_mask is None:
            return ids, None

        return ids, self.put(batch.attention_mask)

    def arguments(self, batch: TokenBatch) -> ModuleArguments:
        """Put a batch on the device; return the arguments of a backbone's module."""
        positional: tuple[Tensor | None, ...] = self.tensors(batch)
        if batch.prefix is not None:
            positional = (*positional, self.put(batch.prefix))

        keywords: dict[str, Any] = {}
        for name, values in batch.keywords.items():
            keywords[name] = self.put(values)

        if batch.auxiliary is not None:
            keywords["auxiliary"] = self.tensors(batch.auxiliary)
        return positional, keywords

    @property
    def memory(self) -> str:
        """Return a description of the device's memory."""
        if self.device.type != "cuda":
            return "the memory"

        share = torch.cuda.get_per_process_memory_fraction(self.device)
        size = torch.cuda.get_device_properties(self.device).total_memory
        return f"{share * size / 2**30:.1f} GiB"


@attrs.define(eq=False)
class BatchSize:
    """The size of batches for encoding, shared by the encoders of an engine."""

    token_budget: int = HOST_BUDGET
    """Tokens per batch, over all processes."""
    most_tokens: int | None = None
    """Largest number of tokens that fits into memory; None as long as all batches have fitted."""
    streams: int = 1
    """Batches encoded at a time, by backbones that support it."""
