"""An encoder in training: its forward passes, gradient caching, and moving averages of its weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from sentbed.helpers import pad, plan_batches
from sentbed.protocols import BuiltBackbone, TokenIds, TokenVectors
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from sentbed_hardware._common.random_generators import (
    generator_states,
    restore_generators,
)
from sentbed_hardware._common.tensor_files import Tensors
from sentbed_hardware._torch.cpu_dropout_and_attention import CpuDropoutAndAttention
from sentbed_hardware._torch.placement import ModuleArguments, Placement
from sentbed_hardware.engine_parts.component_output_checks import tensor_of
from sentbed_hardware.engine_parts.encoder_module import EncoderModule
from sentbed_hardware.engine_parts.process_group import Processes

Chunk: TypeAlias = "NDArray[np.int64]"
"""Indices into a batch: of the texts that share a forward pass, or of vectors."""

Texts: TypeAlias = Mapping[str, TokenIds]
"""Name of a column -> its texts."""

NO_LIMIT = 2**31
"""Number of tokens of a pass that no batch exceeds, for batches whose activations are all kept anyway."""


class Tower:
    """An encoder in training.

    `parameters` are its trained parameters, under the names `TOWER.NAME`.
    """

    def __init__(
        self,
        name: str,
        module: EncoderModule,
        backbone: BuiltBackbone,
        placement: Placement,
        processes: Processes,
    ) -> None:
        self.name = name
        self.module = module
        self.placement = placement
        self.processes = processes
        self.gives_tokens = module.output == "tokens"
        """Whether the encoder gives a vector for each token; in a single process only."""
        self.pad_id = backbone.tokenizer.pad_id
        self.pass_cost = backbone.training_pass_cost
        self.parameters: dict[str, nn.Parameter] = {}
        for key, parameter in module.named_parameters():
            if parameter.requires_grad:
                self.parameters[f"{name}.{key}"] = parameter

    @property
    def buffers(self) -> dict[str, Tensor]:
        """The module's persistent buffers, under the names `TOWER.NAME`."""
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
        """While active, all passes share one copy of the weights in the engine's precision.

        Without it, autocast makes a new copy of all weights in each pass, which is kept until the backward
        pass.
        """
        # Autocast drops its copies at the end of the outermost autocast context. This context casts nothing, but
        # is outside those of the passes.
        if self.processes.sharded:
            return nullcontext()

        return torch.autocast(self.placement.device.type, enabled=False)

    def forward(self, tokens: TokenIds, rows: Chunk) -> Any:
        """Compute the texts `rows` in one pass; return vectors, fp32 `(texts, width)`, or `TokenVectors`."""
        placement = self.placement
        tensors, keywords = self._arguments(tokens, rows)
        faster: AbstractContextManager[Any] = nullcontext()
        if placement.device.type == "cpu":
            faster = CpuDropoutAndAttention()
        with placement.autocast(), faster:
            states = self.module.backbone(*tensors, **keywords)

        return self.module.finish(states, cut=False)

    def encode_keys(
        self,
        average: MovingAverage,
        tokens: TokenIds,
        chunks: Sequence[Chunk],
    ) -> BatchVectors:
        """Return the vectors of keys, encoded by the moving average (He et al., 2020, section 3.2).

        Keys are texts that a moving average encodes. Their vectors have no gradient. The backbone is in eval
        mode, pooler and head are in training mode. Meanwhile, the tower's module has the weights of the average.
        A second module would need the memory of frozen weights twice.
        """
        average.swap()
        self.module.backbone.eval()

        try:
            with torch.no_grad():
                batch = BatchVectors(self, tokens, chunks)
                batch.vectors.requires_grad_(False)
                return batch
        finally:
            self.module.backbone.train()
            average.swap()

    def _arguments(self, tokens: TokenIds, rows: Chunk) -> ModuleArguments:
        """Return the texts `rows` as a batch on the device, in the form of the backbone's arguments."""
        return self.placement.arguments(pad(tokens, rows, self.pad_id))


def plan_chunks(
    lengths: NDArray[np.int64],
    columns: int,
    micro_batch: int | None,
    pass_cost: int = BuiltBackbone.training_pass_cost,
) -> Iterator[Chunk]:
    """Yield the texts of each forward pass, from the longest texts to the shortest.

    `lengths` are the lengths in tokens of all texts of `columns` columns. Texts are put into different passes
    if this saves more padding than another pass costs (`pass_cost`, in tokens).

    `micro_batch` limits the memory of a pass. With T = `micro_batch * columns`, a pass has at most T texts,
    and at most the tokens that T texts have on average. A single text may exceed this.
    """
    if micro_batch is None:
        yield from plan_batches(lengths, NO_LIMIT, pass_cost)
        return

    texts = micro_batch * columns
    budget = max(math.ceil(lengths.sum() * texts / len(lengths)), lengths.max())
    for rows in plan_batches(lengths, budget, pass_cost):
        yield from np.array_split(rows, math.ceil(len(rows) / texts))


class BatchVectors:
    """The vectors of a batch of texts, detached from the encoder, for a loss that gives them a gradient.

    `vectors` has the shape `(texts, width)`. If the encoder gives a vector for each token, they are those of all
    tokens that the pooler does not mask, text after text: `(tokens, width)`.

    `backward` propagates their gradient to the encoder. With `recompute`, no activations are kept until then:
    each pass is computed again, with the same dropout. This is gradient caching (Gao et al., 2021, section 3.2).

    Several processes share the texts of each chunk. All of them compute the same number of passes, since
    computing with sharded weights needs all processes. If a chunk has fewer texts than there are processes,
    the others encode a text of another process and ignore its vector.
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
        """Indices of the texts of each pass in this process."""
        self.counts = np.ones(len(tokens), np.int64)
        """The number of vectors of each text. Of token vectors, `forward` sets it."""
        self.generator_states: list[list[Tensor]] = []
        """The states of the random generators before each pass; empty without `recompute`."""
        self.with_activations: list[Tensor] = []
        """The vectors of each pass, which hold its activations; empty with `recompute`."""

        casts: AbstractContextManager[Any] = nullcontext()
        if not recompute:
            casts = tower.shared_casts()
        records = not recompute and torch.is_grad_enabled()
        parts = []
        with casts, torch.set_grad_enabled(records):
            for rows in self.passes:
                if recompute:
                    self.generator_states.append(generator_states())
                    # A variable for the result of `forward` would keep its activations during the next pass.
                    parts.append(self.forward(rows).detach())
                else:
                    vectors = self.forward(rows)
                    self.with_activations.append(vectors)
                    parts.append(vectors.detach())

        self.vectors = self._gather(parts).requires_grad_()

    def forward(self, rows: Chunk) -> Tensor:
        """Compute the texts `rows` in one pass, and return their vectors."""
        output: Tensor | TokenVectors = self.tower.forward(self.tokens, rows)
        if isinstance(output, TokenVectors):
            self.counts[rows] = output.mask.sum(dim=1).cpu().numpy()
        return tensor_of(output)

    def positions(self, rows: Chunk) -> Chunk:
        """Return the indices in `vectors` of the vectors that `forward(rows)` returns, in its order."""
        if not self.tower.gives_tokens:
            return rows

        ends = np.cumsum(self.counts)
        positions = []
        for row in rows:
            positions.append(np.arange(ends[row] - self.counts[row], ends[row]))

        return np.concatenate(positions)

    def by_column(self, columns: Texts) -> dict[str, Any]:
        """Return the vectors of each column, or its token vectors with padding.

        The texts of this batch are those of `columns`, one column after another.
        """
        counts = [len(tokens) for tokens in columns.values()]
        if not self.tower.gives_tokens:
            parts = torch.split(self.vectors, counts)
            return dict(zip(columns, parts, strict=True))

        token_vectors = {}
        first = 0
        for name, count in zip(columns, counts, strict=True):
            token_vectors[name] = self._token_vectors(slice(first, first + count))
            first += count

        return token_vectors

    def _token_vectors(self, texts: slice) -> TokenVectors:
        """Return the token vectors of texts, with padding."""
        starts = np.cumsum(self.counts) - self.counts
        counts = self.counts[texts, None]
        positions = np.arange(max(1, int(counts.max())))
        mask = positions < counts
        # The first vector stands for padding; the mask hides it.
        indices = np.where(mask, starts[texts, None] + positions, 0)
        put = self.tower.placement.put
        return TokenVectors(self.vectors[put(indices)], put(mask))

    def _gather(self, parts: Sequence[Tensor]) -> Tensor:
        """Return the vectors of all processes in the order of the texts.

        `parts` are the vectors of this process's passes.
        """
        processes = self.tower.processes
        rank, world = processes.rank, processes.world
        # An empty tensor of the right width: `parts` may all be of other processes' texts.
        own_parts = [parts[0][:0]]
        for rows, part in zip(self.chunks, parts, strict=True):
            if rank < len(rows):
                own_parts.append(part)

        positions = []
        counts = []
        for other in range(world):
            count = 0
            for rows in self.chunks:
                part_positions = self.positions(rows[other::world])
                positions.append(part_positions)
                count += len(part_positions)
            counts.append(count)

        vectors = processes.gather(torch.cat(own_parts), counts)
        order = np.argsort(np.concatenate(positions))
        return vectors[self.tower.placement.put(order)]

    def backward(self) -> None:
        """Propagate the gradient of `vectors` to the tower's parameters.

        The random generators are left as they were before.
        """
        gradient = self.vectors.grad
        if gradient is None:
            return

        states_after = generator_states()
        for number, rows in enumerate(self.passes):
            if self.recompute:
                restore_generators(self.generator_states[number])
                vectors = self.forward(rows)
            else:
                # The activations of a pass are freed after its turn.
                vectors = self.with_activations.pop(0)

            part = gradient[self.tower.placement.put(self.positions(rows))]
            if self.tower.processes.rank >= len(self.chunks[number]):
                # The pass was computed on a text of another process.
                part = torch.zeros_like(part)
            torch.autograd.backward(vectors, part)
            del vectors

        restore_generators(states_after)


class MovingAverage:
    """An exponential moving average of the tensors `followed`, to encode keys or to evaluate a stage."""

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
        """Exchange the followed tensors with their averages."""
        for name, value in self.followed.items():
            average = self.tensors[name]

            if isinstance(value, DTensor):
                # FSDP keeps the memory addresses of the shards, so their values are changed in place.
                shard = value.detach().to_local()  # type: ignore[attr-defined]
                average_shard = average.to_local()  # type: ignore[attr-defined]
                shard_before = shard.clone()
                shard.copy_(average_shard)
                average_shard.copy_(shard_before)
            else:
                value.data, average.data = average.data, value.data
