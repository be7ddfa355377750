"""What encoders and trainers use of their engine: its device, its precision, its processes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from sentbed import RunError
from sentbed.protocols import TokenBatch, TrainingEngine

from sentbed_hardware.engine_parts.encoder_module import Pair
from sentbed_hardware.engine_parts.process_group import Processes

HOST_BUDGET = 4096
"""Tokens per batch on a processor: matrix products are fastest from about 2,000 tokens on, and larger batches
do not fit into its cache."""


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
        self._prefix: tuple[Any, torch.Tensor] | None = None

    def report_to(self, say: Callable[[str], None]) -> None:
        """Call `say` with messages for the user."""
        self.say = say

    def put(self, array: NDArray[Any]) -> torch.Tensor:
        """Put an array on the device."""
        return torch.from_numpy(array).to(self.device)

    def tensors(self, batch: TokenBatch) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Put a batch on the device."""
        mask = batch.attention_mask
        return self.put(batch.input_ids), None if mask is None else self.put(mask)

    def prefix(self, batch: TokenBatch) -> tuple[torch.Tensor, ...]:
        """Put the shared prefix of a batch's rows on the device; return nothing if there is none.

        Batches of one list of texts share one array, of which only one tensor is made.
        """
        if batch.prefix is None:
            return ()
        if self._prefix is None or self._prefix[0] is not batch.prefix:
            self._prefix = batch.prefix, self.put(batch.prefix)
        return (self._prefix[1],)

    def auxiliary(self, batch: TokenBatch) -> dict[str, Pair]:
        """Put the auxiliary prompts of a batch on the device; return nothing if there are none."""
        return {} if batch.auxiliary is None else {"auxiliary": self.tensors(batch.auxiliary)}

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
        self.token_budget = self.most_tokens = min(self.token_budget, (rows + 1) // 2 * length)
        self.say(
            f"a batch of {rows * length:,} tokens did not fit into {self.memory}; going on with "
            f"{self.token_budget:,}"
        )
