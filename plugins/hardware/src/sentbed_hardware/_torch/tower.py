"""An encoder in training: its forward passes, gradient caching, and its moving average."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from sentbed.helpers import fault, pad, plan_batches
from sentbed.protocols import BuiltBackbone, TokenIds, TokenStates
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from sentbed_hardware._common.random_generators import (
    generator_states,
    restore_generators,
)
from sentbed_hardware._common.tensor_files import Tensors
from sentbed_hardware._torch.cpu_dropout_and_attention import CpuDropoutAndAttention
from sentbed_hardware._torch.placement import ModuleArguments, Placement
from sentbed_hardware.engine_parts.component_output_checks import (
    origin_of_nan,
    require_recorded,
    tensor_of,
)
from sentbed_hardware.engine_parts.encoder_module import EncoderModule
from sentbed_hardware.engine_parts.process_group import Processes

Chunk: TypeAlias = "NDArray[np.int64]"
"""Indices of the texts that share a forward pass."""

Texts: TypeAlias = Mapping[str, TokenIds]
"""Texts by column."""

NO_LIMIT = 2**31
"""Token budget of a pass if all activations are kept: texts are then split by length only."""


class Tower:
    """An encoder in training.

    `parameters` are the trained ones, under `TOWER.NAME`; with `pools` false, only those of the backbone.
    """

    def __init__(
        self,
        name: str,
        module: EncoderModule,
        backbone: BuiltBackbone,
        placement: Placement,
        processes: Processes,
        pools: bool = True,
    ) -> None:
        self.name = name
        self.module = module
        self.placement = placement
        self.processes = processes
        self.pad_id = backbone.tokenizer.pad_id
        self.pass_cost = backbone.training_pass_cost
        self.parameters: dict[str, nn.Parameter] = {}
        self.trains_backbone = False
        for key, parameter in module.named_parameters():
            of_backbone = key.startswith("backbone.")
            if parameter.requires_grad and (pools or of_backbone):
                self.parameters[f"{name}.{key}"] = parameter
                self.trains_backbone |= of_backbone

        self.backbone = module.backbone
        if placement.compile:
            self.backbone = torch.compile(module.backbone, dynamic=True)

    @property
    def buffers(self) -> dict[str, Tensor]:
        """The module's persistent buffers."""
        saved = self.module.state_dict().keys()
        buffers = self.module.named_buffers()
        return {f"{self.name}.{key}": value for key, value in buffers if key in saved}

    def average(self, momentum: float) -> MovingAverage:
        """Return a moving average of the trained weights, and of the buffers of pooler and head."""
        followed: dict[str, Tensor] = dict(self.parameters)
        for name, value in self.buffers.items():
            if not name.startswith(f"{self.name}.backbone."):
                followed[name] = value

        return MovingAverage(followed, momentum)

    def shared_casts(self) -> AbstractContextManager[Any]:
        """While active, all passes share the weights that autocast has cast to the engine's precision.

        Otherwise each pass would keep its own copy of all weights for its backward pass.
        """
        # Autocast's cache is cleared at the end of the outermost context, which may be one that casts nothing.
        if self.processes.sharded:
            return nullcontext()

        return torch.autocast(self.placement.device.type, enabled=False)

    def states(self, tokens: TokenIds, rows: Chunk) -> TokenStates:
        """Return the token states of these texts from one pass, in the engine's precision."""
        placement = self.placement
        tensors, keywords = self._arguments(tokens, rows)
        replaced: AbstractContextManager[Any] = nullcontext()
        # A compiler makes its own dropout and attention.
        if placement.device.type == "cpu" and not placement.compile:
            replaced = CpuDropoutAndAttention()
        with placement.autocast(), replaced:
            states: TokenStates = self.backbone(*tensors, **keywords)

        return states

    def forward(self, tokens: TokenIds, rows: Chunk) -> Any:
        """Return the vectors of these texts from one pass, fp32 `(texts, width)`, or `TokenVectors`."""
        states = self.states(tokens, rows)
        finished = self.module.finish(states, len(rows), cut=False)

        if torch.is_grad_enabled():
            cls, pooler = self.module.owners
            require_recorded(states, self.trains_backbone, cls)
            if not tensor_of(finished).requires_grad:
                wrong = "built a module whose vectors have no gradient; do not detach what it reads or returns"
                raise fault(pooler, "build", wrong)

        return finished

    def encode_keys(
        self, average: MovingAverage, tokens: TokenIds, chunks: Sequence[Chunk]
    ) -> Tensor:
        """Encode keys by the moving average, without gradient (He et al., 2020, section 3.2).

        The backbone is in eval mode, pooler and head are in training mode. The tower's module gets the
        average's weights meanwhile, since a second module would hold frozen weights twice.
        """
        average.swap()
        self.module.backbone.eval()

        try:
            with torch.no_grad():
                return BatchVectors(self, tokens, chunks).vectors.detach()
        finally:
            self.module.backbone.train()
            average.swap()

    def origin_of_nan(self, tokens: TokenIds, rows: Chunk) -> str:
        """Return which part first gives NaN or infinity for these texts; "" if none does."""
        tensors, keywords = self._arguments(tokens, rows)
        return origin_of_nan(self.module, self.module.backbone, tensors, keywords)

    def _arguments(self, tokens: TokenIds, rows: Chunk) -> ModuleArguments:
        """Return these texts on the device, as the backbone takes them."""
        return self.placement.arguments(pad(tokens, rows, self.pad_id))


def plan_chunks(
    lengths: NDArray[np.int64],
    columns: int,
    micro_batch: int | None,
    pass_cost: int = BuiltBackbone.training_pass_cost,
) -> Iterator[Chunk]:
    """Yield the texts of each forward pass, longest first.

    `lengths` are the lengths in tokens of all texts of `columns` columns. Texts of similar length share a
    pass, as long as this saves more padding than another pass costs (`pass_cost`, in tokens). With
    `micro_batch`, a pass needs no more memory than a plain batch of that many rows: it has at most as many
    texts, and at most as many tokens as they have on average, but at least one text.
    """
    if micro_batch is None:
        yield from plan_batches(lengths, NO_LIMIT, pass_cost)
        return

    texts = micro_batch * columns
    budget = max(math.ceil(lengths.sum() * texts / len(lengths)), lengths.max())
    for rows in plan_batches(lengths, budget, pass_cost):
        yield from np.array_split(rows, math.ceil(len(rows) / texts))


class BatchVectors:
    """The vectors of a batch, `vectors` `(texts, width)`, on which a loss leaves its gradient.

    `backward` propagates that gradient through the passes of this process. With `recompute`, no activations
    are kept until then: each pass is computed again, with the same dropout (Gao et al., 2021, section 3.2).

    Several processes share the texts of each chunk. All have the same number of passes, since weights may be
    sharded over them: a process without a text of a chunk encodes one of another's, and ignores its vector.
    """

    def __init__(
        self,
        tower: Tower,
        tokens: TokenIds,
        chunks: Sequence[Chunk],
        recompute: bool = True,
    ) -> None:
        self.tower = tower
        self.tokens = tokens
        self.chunks = chunks
        self.recompute = recompute
        rank, world = tower.processes.rank, tower.processes.world
        self.passes = [rows[rank % len(rows) :: world] for rows in chunks]
        """The texts of each pass of this process."""
        self.generator_states: list[list[Tensor]] = []
        """States of the random generators before each pass, with `recompute`."""
        self.with_activations: list[Tensor] = []
        """The vectors of each pass with its activations, without `recompute`."""

        # Without gradient, a compiler makes another graph, whose dropout may differ.
        records = not recompute or tower.placement.compile
        casts: AbstractContextManager[Any] = nullcontext()
        if not recompute:
            casts = tower.shared_casts()
        parts = []
        with casts, torch.set_grad_enabled(records and torch.is_grad_enabled()):
            for rows in self.passes:
                if recompute:
                    self.generator_states.append(generator_states())
                    # No name keeps the graph, which would stay in memory during the next pass.
                    parts.append(self.forward(rows).detach())
                else:
                    vectors = self.forward(rows)
                    self.with_activations.append(vectors)
                    parts.append(vectors.detach())

        self.vectors = self._gather(parts).requires_grad_()

    def forward(self, rows: Chunk) -> Tensor:
        """Return the vectors of these texts from one pass."""
        vectors: Tensor = self.tower.forward(self.tokens, rows)
        return vectors

    def positions(self, rows: Chunk) -> Chunk:
        """Return the indices of these texts' vectors among all vectors, in the order of `forward`."""
        return rows

    def texts_of(self, vectors: Chunk) -> Chunk:
        """Return the text of each of these vectors."""
        return vectors

    def _gather(self, parts: Sequence[Tensor]) -> Tensor:
        """Return all vectors, in order, given those of this process's passes."""
        processes = self.tower.processes
        rank, world = processes.rank, processes.world
        used = [parts[0][:0]]
        for rows, part in zip(self.chunks, parts, strict=True):
            if rank < len(rows):
                used.append(part)

        places = []
        counts = []
        for other in range(world):
            of_other = [self.positions(rows[other::world]) for rows in self.chunks]
            places += of_other
            counts.append(sum(map(len, of_other)))

        vectors = processes.gather(torch.cat(used), counts)
        order = np.argsort(np.concatenate(places))
        return vectors[self.tower.placement.put(order)]

    def backward(self) -> None:
        """Add the gradient to the tower's parameters; the random generators are restored afterwards."""
        gradient = self.vectors.grad
        if gradient is None:
            return

        states_after = generator_states()
        for number, rows in enumerate(self.passes):
            if self.recompute:
                restore_generators(self.generator_states[number])
                vectors = self.forward(rows)
            else:
                # This frees its activations.
                vectors = self.with_activations.pop(0)

            part = gradient[self.tower.placement.put(self.positions(rows))]
            if self.tower.processes.rank >= len(self.chunks[number]):
                part = torch.zeros_like(part)
            torch.autograd.backward(vectors, part)
            del vectors

        restore_generators(states_after)


class MovingAverage:
    """An exponential moving average of weights, to encode keys or to evaluate a stage."""

    def __init__(self, followed: Tensors, momentum: float) -> None:
        self.followed = followed
        self.momentum = momentum
        self.tensors: dict[str, Tensor] = {}
        for name, value in followed.items():
            self.tensors[name] = value.detach().clone()

    def update(self) -> None:
        """Update the average after a step: `momentum * average + (1 - momentum) * weights`."""
        with torch.no_grad():
            for name, value in self.followed.items():
                if value.is_floating_point():
                    average = self.tensors[name].mul_(self.momentum)
                    average.add_(value, alpha=1 - self.momentum)

    def swap(self) -> None:
        """Exchange the weights with the average."""
        for name, value in self.followed.items():
            average = self.tensors[name]

            if isinstance(value, DTensor):
                # FSDP gathers the shards from their addresses in memory, so they are changed in place.
                shard = value.detach().to_local()  # type: ignore[attr-defined]
                average_shard = average.to_local()  # type: ignore[attr-defined]
                shard_before = shard.clone()
                shard.copy_(average_shard)
                average_shard.copy_(shard_before)
            else:
                value.data, average.data = average.data, value.data
