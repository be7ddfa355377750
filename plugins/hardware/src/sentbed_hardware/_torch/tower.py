"""An encoder in training."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from sentbed.helpers import fault, pad, plan_batches
from sentbed.protocols import BuiltBackbone, TokenIds, TokenStates

from sentbed_hardware._torch.cpu_dropout_and_attention import CpuDropoutAndAttention
from sentbed_hardware._torch.engine_base import ModuleArguments
from sentbed_hardware._torch.placed_encoder import TorchEncoder
from sentbed_hardware.engine_parts.component_output_checks import (
    origin_of_nan,
    require_recorded,
    tensor_of,
)
from sentbed_hardware.engine_parts.training_settings import require_trainable

Chunk: TypeAlias = "NDArray[np.int64]"
"""Indices of the texts that share a forward pass."""

NO_LIMIT = 2**31
"""Micro-batch without limit: a batch whose activations are all kept is split by length only."""


class Tower:
    """An encoder whose weights are trained.

    `parameters` are the trained ones, by the tower's name and their own; with `pools` false, only those of
    the backbone.
    """

    def __init__(
        self, name: str, encoder: TorchEncoder, alone: bool = True, pools: bool = True
    ) -> None:
        engine = encoder.engine
        self.name = name
        self.encoder = encoder
        self.module = encoder.module
        self.dtype, self.device = engine.dtype, engine.device
        self.compiles = engine.compile
        self.processes = engine.processes
        self.put = engine.put
        """Puts an array on the device."""
        self.arguments = engine.arguments
        """Puts a batch on the device, as the backbone takes it."""
        self.parameters = self._trained_parameters(pools)
        called = "this encoder" if alone else f"the encoder `{name}`"
        require_trainable(
            called, self.module, self.parameters, self.dtype == torch.bfloat16
        )
        self.trains_backbone = any(
            key.startswith(f"{name}.backbone.") for key in self.parameters
        )
        self.backbone = self.module.backbone
        if self.compiles:
            self.backbone = torch.compile(self.backbone, dynamic=True)

    def _trained_parameters(self, pools: bool) -> dict[str, torch.nn.Parameter]:
        trained = {}
        for key, parameter in self.module.named_parameters():
            if parameter.requires_grad and (pools or key.startswith("backbone.")):
                trained[f"{self.name}.{key}"] = parameter
        return trained

    @property
    def buffers(self) -> dict[str, torch.Tensor]:
        """The module's persistent buffers."""
        saved = self.module.state_dict().keys()
        buffers = self.module.named_buffers()
        return {f"{self.name}.{key}": value for key, value in buffers if key in saved}

    def shared_casts(self) -> AbstractContextManager[Any]:
        """While active, all passes share the weights that autocast has cast to the engine's precision.

        Each pass would else keep a copy of all weights for its backward pass.
        """
        # Autocast forgets them at the end of its outermost context, which may be one that casts nothing.
        if self.processes.sharded:
            return nullcontext()
        return torch.autocast(self.device.type, enabled=False)

    def states(self, tokens: TokenIds, rows: Chunk) -> TokenStates:
        """Return the token states of these texts from one pass, in the engine's precision."""
        tensors, keywords = self._arguments(tokens, rows)
        low_precision = self.dtype != torch.float32
        with (
            torch.autocast(self.device.type, self.dtype, low_precision),
            self._dropout_and_attention(),
        ):
            states: TokenStates = self.backbone(*tensors, **keywords)
        return states

    def _dropout_and_attention(self) -> AbstractContextManager[Any]:
        """While active, dropout and attention of a processor replace PyTorch's; a compiler makes its own."""
        if self.device.type == "cpu" and not self.compiles:
            return CpuDropoutAndAttention()
        return nullcontext()

    def forward(self, tokens: TokenIds, rows: Chunk) -> Any:
        """Encode these texts in one pass; fp32 `(texts, width)`, or `TokenVectors`."""
        states = self.states(tokens, rows)
        finished = self.module.finish(states, len(rows), cut=False)
        if torch.is_grad_enabled():
            cls, pooler = self.module.owners
            require_recorded(states, self.trains_backbone, cls)
            if not tensor_of(finished).requires_grad:
                wrong = "built a module whose vectors have no gradient; do not detach what it reads or returns"
                raise fault(pooler, "build", wrong)
        return finished

    def origin_of_nan(self, tokens: TokenIds, rows: Chunk) -> str:
        """Return which part first gives NaN or infinity for these texts; "" if none does."""
        tensors, keywords = self._arguments(tokens, rows)
        return origin_of_nan(self.module, self.module.backbone, tensors, keywords)

    def _arguments(self, tokens: TokenIds, rows: Chunk) -> ModuleArguments:
        """Return these texts on the device, as the backbone takes them."""
        return self.arguments(pad(tokens, rows, self.encoder.backbone.tokenizer.pad_id))


def plan_chunks(
    lengths: NDArray[np.int64],
    columns: int,
    micro_batch: int | None,
    pass_cost: int = BuiltBackbone.training_pass_cost,
) -> Iterator[Chunk]:
    """Yield the texts of each forward pass, longest first.

    `lengths` are those of the texts of `columns` columns. Texts of similar length go together: in one pass
    for all, half of the batch would be padding, which is dearer unless a pass costs more, `pass_cost` in
    tokens. With `micro_batch`, a pass has at most the average number of tokens and the number of texts of
    that many rows, but at least one text: the memory of a plain batch of that size.
    """
    if micro_batch is None:
        yield from plan_batches(lengths, NO_LIMIT, pass_cost)
        return
    texts = micro_batch * columns
    budget = max(math.ceil(lengths.sum() * texts / len(lengths)), lengths.max())
    for rows in plan_batches(lengths, budget, pass_cost):
        yield from np.array_split(rows, math.ceil(len(rows) / texts))
