"""What encoders and trainers use of their engine: its device, its precision, its processes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from sentbed import RunError
from sentbed.protocols import TokenBatch, TrainingEngine

from sentbed_hardware.engine_parts.process_group import Processes

HOST_BUDGET = 4096
"""Tokens per batch on a processor: matrix products are fastest from about 2,000 tokens on, and larger batches
do not fit into its cache."""

ModuleArguments: TypeAlias = tuple[tuple[torch.Tensor | None, ...], dict[str, Any]]
"""Arguments of a backbone's module, in their order and by keyword."""


class TorchEngineBase(TrainingEngine):
    """One device in this process. `facts` is what `describe` returns."""

    def __init__(
        self,
        device: torch.device,
        dtype: torch.dtype,
        compile: bool,
        facts: Mapping[str, Any],
        token_budget: int = HOST_BUDGET,
        streams: int = 1,
    ) -> None:
        self.device = device
        self.dtype = dtype
        self.compile = compile
        self.facts = facts
        self.token_budget = token_budget
        self.streams = streams
        """Batches encoded at a time, by backbones that can."""
        self.processes = Processes()
        self.say: Callable[[str], None] = logging.getLogger("sentbed").warning
        self.most_tokens: int | None = None
        """Tokens that a batch was halved to because it did not fit; None if all have fitted."""
        self._prefix: tuple[NDArray[np.int64], torch.Tensor] | None = None

    def report_to(self, say: Callable[[str], None]) -> None:
        """Call `say` with messages for the user."""
        self.say = say

    def put(self, array: NDArray[Any]) -> torch.Tensor:
        """Put an array on the device."""
        return torch.from_numpy(array).to(self.device)

    def tensors(self, batch: TokenBatch) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Put the ids and the mask of a batch on the device."""
        ids = self.put(batch.input_ids)
        if batch.attention_mask is None:
            return ids, None
        return ids, self.put(batch.attention_mask)

    def arguments(self, batch: TokenBatch) -> ModuleArguments:
        """Put all of a batch on the device, as a backbone's module takes it."""
        positional: tuple[torch.Tensor | None, ...] = self.tensors(batch)
        if batch.prefix is not None:
            positional = (*positional, self._prefix_tensor(batch.prefix))
        keywords: dict[str, Any] = {
            name: self.put(values) for name, values in batch.keywords.items()
        }
        if batch.auxiliary is not None:
            keywords["auxiliary"] = self.tensors(batch.auxiliary)
        return positional, keywords

    def _prefix_tensor(self, prefix: NDArray[np.int64]) -> torch.Tensor:
        """Put a shared prefix on the device, once for all batches of one list of texts."""
        if self._prefix is None or not np.array_equal(self._prefix[0], prefix):
            self._prefix = prefix, self.put(prefix)
        return self._prefix[1]

    @property
    def memory(self) -> str:
        """Return a description of the device's memory."""
        if self.device.type != "cuda":
            return "the memory"
        share = torch.cuda.get_per_process_memory_fraction(self.device)
        size = torch.cuda.get_device_properties(self.device).total_memory
        return f"{share * size / 2**30:.1f} GiB"

    def halve(self, batch: TokenBatch) -> None:
        """Use smaller batches from now on, because this one did not fit.

        Raises:
            RunError: if it is a single row.
        """
        rows, length = batch.input_ids.shape
        if rows == 1:
            raise RunError(
                f"a single text of {length} tokens does not fit into {self.memory} beside the weights; set a "
                'smaller `max_length`, encode in bf16 (`precision = "bf16"`), or free the device of other '
                "programs"
            )
        torch.cuda.empty_cache()
        self.most_tokens = (rows + 1) // 2 * length
        self.token_budget = min(
            self.token_budget, self.most_tokens * self.processes.world
        )
        self.say(
            f"a batch of {rows * length:,} tokens did not fit into {self.memory}; going on with "
            f"{self.most_tokens:,}"
        )
